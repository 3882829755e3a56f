#pragma once

// What a pool's machines cost. Costs adds it up by the cloud's clock and reports it; BillPoll
// decides when to ask the cloud for its charges. budget.h decides what may be spent. Parts of the
// core: pure; core_money_test.cc shows their rules.

#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/task.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/event.h"
#include "skyward/spec/id.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_cost.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

class EngineEffects;
struct Options;

// The clock by which the cloud bills: its offset from ours, and its speed (the time of a simulated
// cloud may pass faster).
struct CloudClock {
  Duration ahead{};
  double rate = 1;
  struct Reading {
    Time at{};  // by our clock
    Duration ahead{};
  };
  std::optional<Reading> last{};

  // Reads both. How much more of the cloud's time has passed since the last reading than should
  // have: a simulated clock was set forward, or this computer has slept.
  Duration read(Time now, Time cloud_now);

  Time at(Time now) const { return now + ahead; }
  Duration to_cloud(Duration local) const { return from_seconds(seconds(local) * rate); }
  Duration to_local(Duration cloud) const { return from_seconds(seconds(cloud) / rate); }
};

// The highest price that a machine of the offer may end up with: on demand, unless the pool takes
// spot machines alone and their prices stay.
std::optional<MachinePrice> highest_price(const Offer& offer, const PoolSpec& spec,
                                          const BillingRules& billing);
// An empty book by the billing rules of the offer's provider.
CostBook new_book(const Options& options, const Offer& offer);

class Costs {
 public:
  // From now on, machines of this offer are requested. The cost of earlier launches elsewhere stays
  // in the book.
  void take_offer(const PoolSpec& spec, const Options& options, const Offer& offer);

  // Machines for this node and the following ones are requested ...
  void on_asked(Time now, NodeId first_node, int count);
  // Of a machine of the present offer.
  const std::optional<MachinePrice>& highest_price() const { return highest_price_; }
  // ... and the request is answered. Returns when it was made, by the cloud's clock.
  Time on_answered(Time now, NodeId first_node);
  void on_launched(Time asked, NodeId node, const Instance& instance);
  void on_ready(Time now, const InstanceId& instance);
  // The total until now.
  void on_work(const InstanceId& instance, const Work& work);
  void on_gone(Time now, const std::vector<InstanceId>& instances);
  void on_all_gone(Time now) { book_.on_all_gone(clock_.at(now)); }
  void on_charges(Time now, const std::vector<Charge>& charges);

  // Emits a CostUpdate, at most every kCostUpdateInterval.
  void tell(EngineEffects& effects, Time now);
  Time told_at() const { return told_at_; }
  // Emits the receipt, with each node's share in `stopped`.
  void tell_final(EngineEffects& effects, Time now, PoolStopped& stopped) const;
  // `cloud_now`: by the cloud's clock.
  PoolCost until(Time cloud_now) const;

  CloudClock& clock() { return clock_; }
  const CloudClock& clock() const { return clock_; }
  const CostBook& book() const { return book_; }
  CostNow now(Time now) const { return book_.now(clock_.at(now)); }
  // Whether it costs nothing if the cloud takes it back then.
  bool is_free_if_taken_back(Time now, const InstanceId& instance, Time at) const {
    return book_.is_free_if_taken_back(instance, clock_.at(now) + clock_.to_cloud(at - now));
  }

 private:
  CostBook book_;  // by the cloud's clock
  CloudClock clock_;
  Offer offer_;
  std::optional<MachinePrice> highest_price_;  // of a machine of it
  Time told_at_{};                             // the last CostUpdate
};

// When to ask the cloud for its charges.
class BillPoll {
 public:
  explicit BillPoll(Duration interval = {}) : interval_(interval) {}  // zero: never

  // Machines have launched: starts asking.
  void start(Time now);
  void stop() { ask_at_ = kNever; }
  void ask(EngineEffects& effects, Time now, const CostBook& book);
  // Before the shared resources are removed: asks once more, for everything that is open. Also for
  // machines that are not in the book yet: failed launches cost money, too.
  void ask_last(EngineEffects& effects, const CostBook& book);
  // The answer has come, with charges or without.
  void on_answer(Time now, bool news);
  // The budget is nearly spent: charges must be no older than `pause`.
  void ask_often(EngineEffects& effects, Time now, const CostBook& book, Duration pause);

  Time ask_at() const { return ask_at_; }
  bool is_asking() const { return asking_; }

 private:
  Duration interval_;
  Time ask_at_ = kNever;
  bool asking_ = false;
  Time news_at_{};
};

}  // namespace skyward::engine
