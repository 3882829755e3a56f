#pragma once

// What a pool costs, from the launch of each machine to the moment at which the cloud confirms that
// it is gone. Exact: whole micro-dollars, rounded up once for each machine; no price is
// guessed. Pure: the time is an argument.
//
// A machine's time is split by what it was for: set-up (launch to ready), useful (tasks ran), lost
// (tasks ran whose work was lost with the machine, since its last answer), and idle.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skyward/base/time.h"

namespace skyward {

// Millionths of a dollar.
using MicroDollars = std::int64_t;

// Dollars an hour, as clouds quote them, in millionths.
MicroDollars to_micro_dollars(double dollars);
double to_dollars(MicroDollars amount);

// How a cloud counts time.
struct BillingRules {
  Duration quantum = std::chrono::seconds(1);   // time is rounded up to whole ones of it
  Duration minimum = std::chrono::seconds(60);  // of each machine
  MicroDollars least = 0;  // of each machine, however short its time; one without a price is free
  // A machine that the cloud itself takes back before it has been there for so long costs nothing.
  Duration free_when_taken_back{};
  bool prices_change = false;  // of spot machines that run
  bool tells_ends = false;     // charges tell which machines have ended by themselves

  // Of an offer that is billed by so many minutes; 0: as the cloud bills in general.
  void set_increment(int minutes) {
    if (minutes > 0) quantum = minimum = std::chrono::minutes(minutes);
  }
  bool operator==(const BillingRules&) const = default;
};

// What a cloud says of one machine's bill, counted back from the moment at which it says so.
// Several of one machine tell the steps of its price, oldest first.
struct Charge {
  std::string instance{};
  std::optional<double> hourly{};   // dollars; empty: as before
  Duration since{};                 // it has been so for so long
  std::optional<Duration> began{};  // so long ago its time began to count
  std::optional<Duration> ended{};  // ... and ended; empty: it still counts, or nobody knows
  bool taken_back = false;          // by the cloud: BillingRules::free_when_taken_back
  // A machine of a launch that failed, released at once: the pool has not seen it.
  // `hourly` is told.
  bool failed_launch = false;
  bool spot = false;  // of such a machine

  bool operator==(const Charge&) const = default;
};

// One machine's price at a time. Prices are for an hour.
struct MachinePrice {
  MicroDollars hourly = 0;
  std::optional<MicroDollars> on_demand_hourly{};  // what the same would cost without spot
  bool spot = false;
};

// Where the money went. The parts add up to `total`.
struct CostSplit {
  MicroDollars total = 0;
  MicroDollars setup = 0;
  MicroDollars useful = 0;
  MicroDollars idle = 0;
  MicroDollars lost = 0;

  bool operator==(const CostSplit&) const = default;
};

struct CostNow {
  Duration elapsed{};  // since the first launch
  MicroDollars total = 0;
  MicroDollars hourly = 0;     // of the machines that are there
  MicroDollars on_demand = 0;  // what the same time would have cost without spot
  int spot_count = 0;          // machines that are there
  int on_demand_count = 0;
  bool complete = true;  // false: the price of some machine is not known
};

class CostBook {
 public:
  explicit CostBook(BillingRules rules = {}) : rules_(rules) {}

  // Machines for this node and those after it were asked for: each may cost from now on.
  void on_asked(int node, Time now, int count, std::optional<MachinePrice> price);
  // ... and the request was fulfilled or refused. Returns when it was made; `now` if it was not.
  Time on_answered(int node, Time now);

  // A machine whose clock runs from here. No price: it is counted as free, and the sums say that
  // they are not complete.
  void on_launched(const std::string& instance, int node, Time now,
                   std::optional<MachinePrice> price);
  void on_ready(const std::string& instance, Time now);
  // How long tasks ran on it in all, and how much longer it did work that was lost with it.
  void on_work(const std::string& instance, Duration useful, Duration lost);
  // It is seen to be gone: the clock stops.
  void on_gone(const std::string& instance, Time now);
  // Nothing is left of all machines that were launched.
  void on_all_gone(Time now);
  // The cloud's own word wins over what is seen from here. Prices are known up to now.
  void on_charges(std::span<const Charge> charges, Time now);

  // Some machine's price may be another one now than it was when the cloud was asked last.
  bool prices_may_change() const;
  bool asked_for_any() const { return asked_for_any_; }
  // Some machine has a price above zero.
  bool costs_anything() const { return costs_anything_; }
  CostNow now(Time now) const;
  CostSplit split(Time now) const;
  std::map<int, MicroDollars> by_node(Time now) const;
  MicroDollars highest_hourly() const { return highest_hourly_; }
  int machines(bool spot) const;  // that there were
  int unpriced() const;           // of these, whose price is not known
  // Whether it costs nothing if the cloud takes it back then.
  bool is_free_if_taken_back(const std::string& instance, Time at) const;
  // Those whose end the cloud has not told.
  std::vector<std::string> open_bills() const;

  // The last moment at which the sum is at most `limit` if nothing changes but prices, for the
  // worst: a spot machine's up to the price on demand. Not before `now`; kNever: no such moment.
  Time lasts_until(MicroDollars limit, Time now) const;

 private:
  struct Segment {
    Time begin{};
    MicroDollars hourly = 0;
  };
  struct Machine {
    std::vector<Segment> prices{};
    std::optional<MicroDollars> on_demand{};
    bool spot = false;
    bool priced = false;
    bool began_told = false;
    bool ended_told = false;
    bool taken_back = false;
    int node = 0;
    Time launched{};
    std::optional<Time> ready{};
    std::optional<Time> gone{};
    Duration useful{};
    Duration lost{};
  };
  struct Request {
    Machine machine;  // one of them
    int count = 1;
  };

  static Machine make(int node, Time now, const std::optional<MachinePrice>& price);
  void set_gone(Machine& machine, Time at);
  void set_price(Machine& machine, Time at, MicroDollars hourly);
  bool is_free(const Machine& machine) const;
  Duration billed(const Machine& machine, Time now) const;
  MicroDollars cost_of_time(const Machine& machine, Time now, bool worst = false) const;
  MicroDollars cost(const Machine& machine, Time now, bool worst = false) const {
    return at_least(cost_of_time(machine, now, worst));
  }
  MicroDollars at_least(MicroDollars amount) const {
    return amount > 0 ? std::max(amount, rules_.least) : 0;
  }

  BillingRules rules_;
  bool asked_for_any_ = false;
  bool costs_anything_ = false;
  Time known_until_{};  // prices
  MicroDollars hourly_ = 0;
  MicroDollars highest_hourly_ = 0;
  std::map<std::string, Machine> machines_;
  std::map<int, Request> requests_;  // not answered yet
};

// Amounts in whole `unit`s that add up to the whole number of units of their sum: what is shown of
// a sum and its parts.
std::vector<MicroDollars> round_parts(std::span<const MicroDollars> parts, MicroDollars unit);

}  // namespace skyward
