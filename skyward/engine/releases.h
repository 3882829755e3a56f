#pragma once

// Machines to terminate: those for which the provider was asked, and those that are still running
// after that. The engine asks again for the latter, even while the pool is open. A part of the
// core: pure.

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
  // The pool's last machines, and all that have not ended yet. From now on, retries are limited.
  void release_last(EngineEffects& effects, std::vector<InstanceId> instances);
  // The oldest request was answered. Returns the machines that have ended.
  std::vector<InstanceId> on_answer(EngineEffects& effects, Time now, const Status& status);
  // again_at() has come: asks again for those that have not ended.
  void retry(EngineEffects& effects);
  // Returns those that have not ended, and gives up on them.
  std::vector<InstanceId> take_left();

  // No request is pending or planned.
  bool is_done() const { return asked_.empty() && again_at_ == kNever; }
  // Some have not ended, and a retry may help.
  bool may_still_end() const;
  Time again_at() const { return again_at_; }
  int requests() const { return static_cast<int>(asked_.size()); }  // pending
  std::vector<InstanceId> asked() const;

 private:
  // Pending requests, oldest first: they are answered in this order.
  std::deque<std::vector<InstanceId>> asked_;
  std::vector<InstanceId> left_;  // have not ended
  Time again_at_ = kNever;        // when to ask again
  int tries_ = 0;                 // failed in a row
  bool last_ = false;
};

}  // namespace skyward::engine
