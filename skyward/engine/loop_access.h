#pragma once

// The callers' way to a loop whose owner may end it at any time. A caller borrows the loop for the
// length of one short call; only the owner ever destroys it, so that this never happens on the
// loop's own thread, which cannot join itself.

#include <mutex>
#include <utility>

#include "skyward/engine/loop.h"

namespace skyward::engine {

// Thread-safe.
class LoopAccess {
 public:
  explicit LoopAccess(EngineLoop& loop) : loop_(&loop) {}

  // Calls `use` with the loop; false when there is none any more. `use` must not wait for the
  // loop's thread, which may be waiting here itself, in somebody's callback.
  template <typename Use>
  bool borrow(Use use) {
    const std::scoped_lock lock(mutex_);
    if (loop_ == nullptr) return false;
    std::forward<Use>(use)(*loop_);
    return true;
  }

  // Waits for the call in progress. After that nobody gets at the loop.
  void end() {
    const std::scoped_lock lock(mutex_);
    loop_ = nullptr;
  }

 private:
  std::mutex mutex_;
  EngineLoop* loop_;
};

}  // namespace skyward::engine
