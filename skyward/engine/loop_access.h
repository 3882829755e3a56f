#pragma once

// Callers' access to a loop whose owner may destroy it at any time. A caller borrows the loop for
// one short call. Only the owner destroys it, so never on the loop's own thread, which could not
// join itself.

#include <mutex>
#include <utility>

#include "skyward/engine/loop.h"

namespace skyward::engine {

// Thread-safe.
class LoopAccess {
 public:
  explicit LoopAccess(EngineLoop& loop) : loop_(&loop) {}

  // Calls `use` with the loop; false if the loop has been destroyed. `use` must not wait for the
  // loop's thread, which may itself wait here, in a callback.
  template <typename Use>
  bool borrow(Use use) {
    const std::scoped_lock lock(mutex_);
    if (loop_ == nullptr) return false;
    std::forward<Use>(use)(*loop_);
    return true;
  }

  // Waits for the call in progress. After that, nobody can borrow the loop.
  void end() {
    const std::scoped_lock lock(mutex_);
    loop_ = nullptr;
  }

 private:
  std::mutex mutex_;
  EngineLoop* loop_;
};

}  // namespace skyward::engine
