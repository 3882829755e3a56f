#pragma once

// What a pool costs, from the launch of each machine to the moment at which the cloud confirms that
// it is gone. Exact: whole micro-dollars, rounded up once for each machine and price; no price is
// guessed. Pure: the time is an argument.
//
// A machine's time is split by what it was for: set-up (launch to ready), useful (tasks ran), idle,
// and lost (all that a machine did that was taken away while it worked, when its work had to be
// done again).

#include <cstdint>
#include <map>
#include <optional>
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

  // A machine was asked for: the clock runs from here. No price: it is counted as free, and the
  // sums say that they are not complete.
  void on_launched(const std::string& instance, Time now, std::optional<MachinePrice> price);
  // A spot price changed.
  void on_price(const std::string& instance, Time now, MicroDollars hourly);
  void on_ready(const std::string& instance, Time now);
  // So many tasks run on it from now on.
  void on_tasks(const std::string& instance, Time now, int running);
  // Its tasks must run again elsewhere: what it did since it was ready is lost.
  void on_preempted(const std::string& instance);
  // The cloud says that it is gone: the clock stops.
  void on_gone(const std::string& instance, Time now);

  CostNow now(Time now) const;
  CostSplit split(Time now) const;
  // When the sum will have reached `limit` if nothing changes, earliest `now`; kNever if it will
  // not.
  Time reaches(MicroDollars limit, Time now) const;

 private:
  struct Segment {
    Time begin{};
    MicroDollars hourly = 0;
  };
  struct Machine {
    std::vector<Segment> prices;
    std::optional<MicroDollars> on_demand;
    bool spot = false;
    bool priced = false;
    bool preempted = false;
    Time launched{};
    std::optional<Time> ready{};
    std::optional<Time> gone{};
    int running = 0;
    Time running_since{};
    Duration busy{};
  };

  Duration billed(const Machine& machine, Time now) const;
  MicroDollars cost(const Machine& machine, Time now) const;

  BillingRules rules_;
  std::map<std::string, Machine> machines_;
};

}  // namespace skyward
