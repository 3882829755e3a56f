#pragma once

// A cloud that is not there: what it sells, what it has sold, what it bills, and what can go wrong
// with its answers. Pure: time is an argument, chance comes from a seed; no clock, no thread, no
// I/O. What happens by itself (machines boot, prices move, machines are preempted) happens when
// the next request or advance() says that its time has come.
//
// It is stricter than real clouds. What those let pass and a careful client never does is refused
// and kept as a violation: a thing without its owner's tags, a client token used again for
// something else, ending what was never sold or is known to have ended, a request right after a
// refusal for speed.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/provider/fake/cloud_config.h"
#include "skyward/provider/fake/requests.h"

namespace skyward::provider::fake {

class Cloud {
 public:
  Cloud(CloudConfig config, Time begin);

  // ---- Requests. Any may be refused, or its answer be lost, as the configuration says.
  Answer<std::vector<MachineType>> list_types(Time now);  // with the prices of now
  Answer<std::vector<Machine>> run_machines(Time now, const LaunchRequest& request);
  // Machines that bear all of `tags`, as the listing knows them; those that ended stay for an hour.
  Answer<std::vector<Machine>> list_machines(Time now, const Tags& tags);
  Answer<void> end_machines(Time now, const std::vector<std::string>& ids);
  // The id. The same name and tags again give the same thing.
  Answer<std::string> make_item(Time now, const std::string& kind, const std::string& name,
                                const Tags& tags);
  Answer<std::vector<Item>> list_items(Time now, const Tags& tags);
  // By id, or by our name for it.
  Answer<void> delete_item(Time now, const std::string& kind, const std::string& id_or_name);

  // ---- What is no request.
  void advance(Time now);
  Time next_event() const;  // kNever: nothing will happen by itself
  std::vector<MachineEvent> take_events() { return std::exchange(events_, {}); }
  // Somebody works on the machine: it stays until its lifetime is over.
  void claim(Time now, const std::string& id);
  // Takes a machine back; false when it does not stand, or is on its way out already.
  bool preempt(Time now, const std::string& id, Duration notice);
  int preempt_all_spot(Time now, Duration notice);
  // The machine that stands for a pool's node, the newest: empty when there is none.
  std::string machine_of(const std::string& node) const;
  void set_hourly(Time now, const std::string& type, bool spot, MicroDollars hourly);

  // The cloud's own account, by its own sums: of everything sold, or of one pool.
  MicroDollars bill(Time now, const std::string& pool = {}) const;
  // What it tells its customer of that, for one machine; nothing of what was never sold.
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

  // Called before and after the deed of each request. For tests; it may throw.
  std::function<void(std::string_view action, bool done)> watch;

 private:
  struct Sold {
    Machine told;
    std::string group, key;
    MicroDollars most_hourly = 0;
    Time launched{}, running = kNever, ending = kNever, ended = kNever;
    bool claimed = false, doomed = false, noticed = false, taken_back = false;
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
  void sell_one(Time now, const LaunchRequest& request, int index);
  void doom_some(const std::vector<std::string>& ids);
  void end(Sold& sold, Time ending, Time ended, std::string reason);
  void happen(Time now, const Due& due);
  void step_prices(Time now);
  MachineState state_at(const Sold& sold, Time time) const;
  const MachineType* find_type(const std::string& name) const;
  MicroDollars hourly(const std::string& type, bool spot) const;
  MicroDollars cost(const Sold& sold, Time now) const;
  double chance() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  void at(Time time, Due::Kind kind, std::string machine = {});

  CloudConfig config_;
  const Time begin_;
  std::mt19937_64 random_;
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
