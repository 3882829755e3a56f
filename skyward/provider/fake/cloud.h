#pragma once

// A simulated cloud: its offers, its machines, its bill and its faults. Pure: time is an argument,
// chance comes from a seed; no clock, no thread, no I/O. What happens by itself (machines boot,
// prices move, machines are preempted) happens at the next request or advance() after its time.
//
// It is stricter than real clouds. What those tolerate and a careful client never does is refused
// and recorded as a violation: a resource without its owner's tags, a client token reused for
// another request, terminating what was never launched or is known to be terminated, a request
// right after one was throttled.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/provider/fake/cloud_config.h"
#include "skyward/provider/fake/draws.h"
#include "skyward/provider/fake/requests.h"

namespace skyward::provider::fake {

class Cloud {
 public:
  Cloud(CloudConfig config, Time begin);

  // ---- Requests. Any may be refused, or its reply lost, as the configuration says.
  Answer<std::vector<MachineType>> list_types(Time now);  // with the prices of now
  Answer<std::vector<Machine>> run_machines(Time now, const LaunchRequest& request);
  // Machines with all of `tags`, as the listing shows them; terminated ones are listed for an hour.
  Answer<std::vector<Machine>> list_machines(Time now, const Tags& tags);
  Answer<void> end_machines(Time now, const std::vector<std::string>& ids);
  // The id. The same name and tags return the same resource.
  Answer<std::string> make_item(Time now, const std::string& kind, const std::string& name,
                                const Tags& tags);
  Answer<std::vector<Item>> list_items(Time now, const Tags& tags);
  // By id, or by our name for it.
  Answer<void> delete_item(Time now, const std::string& kind, const std::string& id_or_name);

  // ---- Not requests.
  void advance(Time now);
  Time next_event() const;  // kNever: nothing will happen by itself
  std::vector<MachineEvent> take_events() { return std::exchange(events_, {}); }
  // An agent has started on the machine: it stays until its lifetime is over.
  void claim(Time now, const std::string& id);
  // Preempts a machine; false if it does not exist, or is terminating already.
  bool preempt(Time now, const std::string& id, Duration notice);
  int preempt_all_spot(Time now, Duration notice);
  // The machine has become this node of its pool.
  void assign(const std::string& id, int node);
  // The newest machine that is this node of a pool; empty if there is none.
  std::string machine_of(int node) const;
  void set_capacity(const std::string& type, int machines) { config_.capacity[type] = machines; }
  void set_hourly(Time now, const std::string& type, bool spot, MicroDollars hourly);

  // The cloud's own bill, computed independently: of everything, or of one pool.
  MicroDollars bill(Time now, const std::string& pool = {}) const;
  // What it tells its customer about that, for one machine; empty if it was never launched.
  std::vector<Charge> charges(Time now, const std::string& id) const;

  int standing() const;  // machines that are billed
  bool stands(const std::string& id) const;
  std::vector<std::string> resources() const;  // "instance i-1", "volume vol-1": all that is there
  int sold() const { return static_cast<int>(machines_.size()); }
  int preempted() const { return preempted_; }
  int requests() const { return requests_; }
  const std::vector<std::string>& violations() const { return violations_; }
  std::vector<std::string> zones() const;
  const CloudConfig& config() const { return config_; }
  Time begin() const { return begin_; }

  // Seconds since 1970, by this cloud's clock.
  std::int64_t wall_s(Time now) const;

  // Called before and after each request takes effect. For tests; it may throw.
  std::function<void(std::string_view action, bool done)> watch;

 private:
  // What a machine draws when it is sold; the configuration says what that means.
  struct Fate {
    double boot_time = 0, failed_boot = 0, preemption = 0, notice_time = 0, leaked_disk = 0;
  };
  struct Sold {
    Machine told;
    Fate fate;
    std::string group, key;
    MicroDollars most_hourly = 0;
    std::optional<int> node{};
    Time launched{}, running = kNever, ending = kNever, ended = kNever;
    bool claimed = false, to_be_preempted = false, noticed = false, taken_back = false;
  };
  struct Made {
    Item item;
    std::string machine;  // of a disk
    Time made{}, gone = kNever;
  };
  struct PriceStep {
    Time at{};
    MicroDollars hourly = 0;
  };
  struct Due {
    enum class Kind : std::uint8_t { boot, notice, reclaim, end, expire, unclaimed, prices, storm };
    Kind kind = Kind::boot;
    std::string machine{};
  };

  template <typename T, typename Deed>
  Answer<T> request(Time now, std::string_view action, Deed deed);
  std::optional<Refusal> refused_for_speed(Time now, std::string_view action);
  std::unexpected<Refusal> violation(Time now, std::string_view action, const std::string& what);
  std::string wrong_tags(const Tags& tags, Time now) const;
  std::string wrong_launch(const LaunchRequest& request, Time now) const;
  std::optional<Refusal> no_room(const LaunchRequest& request) const;
  Answer<std::vector<Machine>> sell(Time now, const LaunchRequest& request);
  std::string sell_one(Time now, const LaunchRequest& request);
  void choose_preempted(std::vector<std::string> ids);
  void end(Sold& sold, Time ending, Time ended, std::string reason);
  void happen(Time now, const Due& due);
  void step_prices(Time now);
  MachineState state_at(const Sold& sold, Time time) const;
  static bool is_forgotten(const Sold& sold, Time known);
  const MachineType* find_type(const std::string& name) const;
  MicroDollars hourly(const std::string& type, bool spot) const;
  MicroDollars cost(const Sold& sold, Time now) const;
  void at(Time time, Due::Kind kind, std::string machine = {});

  CloudConfig config_;
  const Time begin_;
  Draws request_draws_, price_draws_;
  std::map<std::pair<Time, std::uint64_t>, Due> due_;
  std::uint64_t next_due_ = 0;
  std::map<std::string, Sold> machines_;
  std::vector<Made> items_;
  std::map<std::string, std::pair<LaunchRequest, std::vector<std::string>>> tokens_;
  std::map<std::pair<std::string, bool>, std::vector<PriceStep>> prices_;  // type, spot
  std::vector<MachineEvent> events_;
  std::vector<std::string> violations_;
  double allowance_ = 0;  // requests that may come at once
  Time allowance_at_{};
  std::map<std::string, Time, std::less<>> throttled_;  // action → when, until it comes again
  int requests_ = 0;
  int preempted_ = 0;
  int to_preempt_ = 0;  // of config_.preemptions, not yet given to a machine
  int next_id_ = 0;
};

}  // namespace skyward::provider::fake
