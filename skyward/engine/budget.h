#pragma once

// What a pool may spend. Before the budget is spent, the pool drains: it starts no tasks and
// launches no machines, lets running tasks finish and releases idle machines at once. It releases
// the rest early enough to pay for that, too. The budget only judges; core_spend.cc acts on what it
// says.

#include <cstdint>
#include <optional>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/costs.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

// From Shutdown to the end of an agent, at most.
Duration closing_time(const PoolSpec& spec);
class Budget {
 public:
  // What every judgement depends on.
  struct Facts {
    const PoolSpec& spec;
    const Options& options;
    const Costs& costs;
    const Offer& offer;    // that the pool takes
    int provisioning = 0;  // requests under way
    int terminating = 0;
    Duration mean_run{};  // of recent tasks
    Time now{};
  };
  enum class Verdict : std::uint8_t {
    enough,
    drain,  // only what runs is paid for, and releasing the machines
    stop,   // no more than releasing them is
  };
  struct Look {
    Verdict verdict = Verdict::enough;
    Time drain_at = kNever;
    Time stop_at = kNever;
  };

  // Refuses an offer whose price, or whose least cost, does not go with the budget.
  Status check_offer(const Facts& facts, const Offer& offer) const;
  // The same for one more machine beside those that are there.
  Status check_machine(const Facts& facts) const;
  // Refuses the machines that came, when all that are not seen to be gone cost more an hour than
  // was allowed ...
  Status check_rate(const Facts& facts) const;
  // ... and one more, beside them and those that were asked for.
  Status check_rate_with_another(const Facts& facts) const;

  // Judges, and warns once when the end comes near.
  Look look(EngineEffects& effects, const Facts& facts);
  // The next look; kNever: there is nothing to look at.
  void look_again(Time now, const Look& look);
  void stop_looking() { look_at_ = kNever; }
  Time look_at() const { return look_at_; }

  void drain() { draining_ = true; }
  bool is_draining() const { return draining_; }
  // Why no more tasks start.
  Error spent(const Facts& facts) const;

 private:
  Time look_at_ = kNever;
  bool warned_ = false;
  bool draining_ = false;
};

}  // namespace skyward::engine
