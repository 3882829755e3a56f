#pragma once

// Machines to terminate: those for which the provider was asked; those that are still running after
// that, for which the engine asks again, even while the pool is open; and those whose cloud takes
// them back soon, which are held for a while. A part of the core: pure.

#include <deque>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/spec/id.h"

namespace skyward::engine {

class EngineEffects;

class Releases {
 public:
  void release(EngineEffects& effects, std::vector<InstanceId> instances);
  // Not before then: until then, the cloud may end it at a lower cost.
  void hold(const InstanceId& instance, Time until);
  // Those that are held, for a request that does not wait.
  std::vector<InstanceId> take_held();
  // The pool's last machines, and all that have not ended yet. From now on, retries are limited.
  void release_last(EngineEffects& effects, std::vector<InstanceId> instances);
  // The oldest request was answered. Returns the machines that have ended.
  std::vector<InstanceId> on_answer(EngineEffects& effects, Time now, const Status& status);
  // next_at() has come: asks for those that were held until now, and again for those that have not
  // ended.
  void on_timer(EngineEffects& effects, Time now);
  // Returns those that have not ended, and gives up on them.
  std::vector<InstanceId> take_left();

  // No request is pending or planned.
  bool is_done() const { return asked_.empty() && again_at_ == kNever && held_.empty(); }
  // Some have not ended, and a retry may help.
  bool may_still_end() const;
  Time again_at() const { return again_at_; }  // for those that have not ended
  Time next_at() const;
  int requests() const { return static_cast<int>(asked_.size()); }  // pending
  std::vector<InstanceId> asked() const;

 private:
  // Pending requests, oldest first: they are answered in this order.
  std::deque<std::vector<InstanceId>> asked_;
  struct Held {
    InstanceId instance;
    Time until{};
  };
  std::vector<Held> held_;
  std::vector<InstanceId> left_;  // have not ended
  Time again_at_ = kNever;        // when to ask again
  int tries_ = 0;                 // failed in a row
  bool last_ = false;
};

}  // namespace skyward::engine
