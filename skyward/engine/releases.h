#pragma once

// Machines that shall end: which the provider was asked to terminate, and which did not end then. A
// machine that did not is asked again, while the pool is open, too. A part of the core: pure.

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
  // The pool's last machines, and with them those that did not end yet. From now on there is a last
  // try.
  void release_last(EngineEffects& effects, std::vector<InstanceId> instances);
  // The oldest request was answered. Returns the machines that are gone.
  std::vector<InstanceId> on_answer(EngineEffects& effects, Time now, const Status& status);
  // It is again_at(): those that did not end are asked again.
  void retry(EngineEffects& effects);
  // What is left of those that did not end: nobody asks them again.
  std::vector<InstanceId> take_left();

  // Nothing is asked, nor will be.
  bool is_done() const { return asked_.empty() && again_at_ == kNever; }
  // Some did not end, and that may pass.
  bool may_still_end() const;
  Time again_at() const { return again_at_; }
  int requests() const { return static_cast<int>(asked_.size()); }  // under way
  std::vector<InstanceId> asked() const;

 private:
  // Requests under way, oldest first: they are answered in this order.
  std::deque<std::vector<InstanceId>> asked_;
  std::vector<InstanceId> left_;  // did not end
  Time again_at_ = kNever;        // ... and are asked again
  int tries_ = 0;                 // in vain, in a row
  bool last_ = false;
};

}  // namespace skyward::engine
