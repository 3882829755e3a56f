#pragma once

// Waits for a condition in steps and calls `poll` in between, where a caller's thread notices that
// its program was interrupted. `poll` is called at least once, may be empty, and may throw.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"

namespace skyward {

inline constexpr Duration kInterruptCheckInterval = std::chrono::milliseconds(100);

template <typename Ready>
void wait_polling(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  const std::function<void()>& poll, Ready ready) {
  if (!poll) return changed.wait(lock, ready);
  do {
    lock.unlock();
    poll();
    lock.lock();
  } while (!changed.wait_for(lock, kInterruptCheckInterval, ready));
}

// Waits until `ready` or until the time is over (kForever: no limit); returns ready().
template <typename Ready>
bool wait_within(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                 Duration timeout, Ready ready) {
  if (timeout < kLongestWait) return changed.wait_for(lock, timeout, ready);
  changed.wait(lock, ready);
  return true;
}

}  // namespace skyward
