#pragma once

// What a pool's machines cost. Costs keeps the book, by the cloud's clock, and tells people what is
// in it; BillPoll decides when the cloud is asked what its bills say. What may be spent is the
// budget's (budget.h). Parts of the core: pure, and told in core_money_test.cc.

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

// The clock by which the cloud bills: so far ahead of ours, and so many times as fast (a cloud that
// is played may let its time pass faster).
struct CloudClock {
  Duration ahead{};
  double rate = 1;

  Time at(Time now) const { return now + ahead; }
  Duration theirs(Duration ours) const { return from_seconds(seconds(ours) * rate); }
  Duration ours(Duration theirs) const { return from_seconds(seconds(theirs) / rate); }
};

// The highest price that the offer may turn out to have: spot machines may be others in the end.
std::optional<MachinePrice> highest_price(const Offer& offer);
// Dollars an hour of one of its machines, if it is of the kind that is asked for first.
std::optional<double> asking_price(const PoolSpec& spec, const Offer& offer);
// An empty book by the rules of whoever sells the offer.
CostBook new_book(const Options& options, const Offer& offer);

class Costs {
 public:
  // Machines of this offer are asked for from now on. What launches elsewhere have cost stays in
  // the book.
  void take_offer(const Options& options, const Offer& offer);

  // Machines for this node and those after it are asked for ...
  void on_asked(Time now, NodeId first_node, int count);
  // ... and come, or not: when they were asked for, by the cloud's clock.
  Time on_answered(Time now, NodeId first_node);
  void on_bought(Time asked, NodeId node, const Instance& instance);
  void on_ready(Time now, const InstanceId& instance);
  // In all, until now.
  void on_work(const InstanceId& instance, const Work& work);
  void on_gone(Time now, const std::vector<InstanceId>& instances);
  void on_charges(Time now, const std::vector<Charge>& charges);

  // A CostUpdate, not too often.
  void tell(EngineEffects& effects, Time now);
  // The bill, and each node's part of it in `stopped`.
  void tell_final(EngineEffects& effects, Time now, PoolStopped& stopped) const;
  PoolCost until(Time now) const;

  CloudClock& clock() { return clock_; }
  const CloudClock& clock() const { return clock_; }
  const CostBook& book() const { return book_; }
  CostNow now(Time now) const { return book_.now(clock_.at(now)); }

 private:
  CostBook book_;  // by the cloud's clock
  CloudClock clock_;
  Offer offer_;
  Time told_at_{};  // the last CostUpdate
};

// When the cloud is asked what its bills say.
class BillPoll {
 public:
  explicit BillPoll(Duration interval = {}) : interval_(interval) {}  // zero: never

  // Machines are there: from now on.
  void start(Time now);
  void stop() { ask_at_ = kNever; }
  void ask(EngineEffects& effects, Time now, const CostBook& book);
  // Before what the machines shared is removed: once more, whatever is open. Also of machines that
  // are in no book yet: launches that failed cost, too.
  void ask_last(EngineEffects& effects, const CostBook& book);
  // The answer has come, with news or without.
  void on_answer(Time now, bool news);
  // The budget ends soon: no older news than kBudgetLook.
  void ask_often(EngineEffects& effects, Time now, const CostBook& book);

  Time ask_at() const { return ask_at_; }

 private:
  Duration interval_;
  Time ask_at_ = kNever;
  bool asking_ = false;
  Time news_at_{};
};

}  // namespace skyward::engine
