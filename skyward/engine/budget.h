#pragma once

// What a pool may spend. Before the budget is spent, the pool drains: it starts no tasks and
// launches no machines, lets running tasks finish and releases idle machines at once. It releases
// the rest early enough to pay for that, too. The budget only judges; core_spend.cc acts on what it
// says.

#include <cstdint>
#include <optional>
#include <utility>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/costs.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

// The longest time from Shutdown to an agent's exit.
Duration closing_time(const PoolSpec& spec);

class Budget {
 public:
  // The inputs of every judgement.
  struct Facts {
    const PoolSpec& spec;
    const Options& options;
    const Costs& costs;
    const Offer& offer;    // that the pool chose
    int provisioning = 0;  // pending requests
    int terminating = 0;   // pending requests
    Duration mean_run{};   // of recent tasks
    Time now{};
  };
  enum class Verdict : std::uint8_t {
    enough,
    drain,  // the rest pays for running tasks and for releasing the machines
    stop,   // the rest pays only for releasing the machines
  };
  struct Judgement {
    Verdict verdict = Verdict::enough;
    Time warn_at = kNever;  // at the latest; kNever: it was done
    Time drain_at = kNever;
    Time notice_at = kNever;  // to tell running tasks that they end at stop_at
    Time late_notice_at = kNever;
    Time stop_at = kNever;
  };

  // Refuses an offer whose price or minimum cost exceeds the budget, or what is left of it after
  // launches that failed elsewhere.
  Status check_offer(const Facts& facts, const Offer& offer) const;
  // The same for one more machine.
  Status check_machine(const Facts& facts) const;
  // Refuses the provisioned machines if, with all machines not known to be gone, they cost more an
  // hour than allowed ...
  Status check_rate(const Facts& facts) const;
  // ... and one more machine beside them and the requested ones.
  Status check_rate_with_another(const Facts& facts) const;

  // Judges, and warns once when the budget is nearly spent.
  Judgement judge(EngineEffects& effects, const Facts& facts);
  // When to judge next, after this pause at the latest.
  void schedule(Time now, const Judgement& judgement, Duration pause);
  void unschedule() { next_at_ = kNever; }
  // Time has jumped: until the cloud has told its charges, nothing is known. Then it judges by what
  // it has. take_bills(): whether they were awaited.
  void await_bills(Time until) {
    next_at_ = until;
    awaits_bills_until_ = until;
  }
  bool awaits_bills(Time now) const { return now < awaits_bills_until_; }
  bool take_bills() { return std::exchange(awaits_bills_until_, Time{}) != Time{}; }
  // kNever: there is nothing to judge.
  Time next_at() const { return next_at_; }

  void drain() { draining_ = true; }
  bool is_draining() const { return draining_; }
  // Running tasks were told when they end.
  void note_notice() { noticed_ = true; }
  bool has_given_notice() const { return noticed_; }
  // Why no more tasks start.
  Error spent(const Facts& facts) const;
  // Why no more machines are awaited: since they were requested, they may have cost all of it.
  Error outlived(const Facts& facts) const;

 private:
  Time next_at_ = kNever;
  Time awaits_bills_until_{};
  bool warned_ = false;
  bool draining_ = false;
  bool noticed_ = false;
};

}  // namespace skyward::engine
