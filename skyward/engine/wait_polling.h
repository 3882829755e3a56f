#pragma once

// Waits on a condition in steps, so that `poll` is called meanwhile: a caller's thread notices an
// interrupt of its program there. It is called once at least, may be empty, and may throw.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "skyward/base/time.h"

namespace skyward::engine {

inline constexpr Duration kPollInterval = std::chrono::milliseconds(100);

template <typename Ready>
void wait_polling(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  const std::function<void()>& poll, Ready ready) {
  do {
    if (!poll) continue;
    lock.unlock();
    poll();
    lock.lock();
  } while (!changed.wait_for(lock, kPollInterval, ready));
}

// Waits until `ready` or the time is over, kForever without limit; returns ready().
template <typename Ready>
bool wait_within(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                 Duration timeout, Ready ready) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point now = Clock::now();
  if (timeout < Clock::time_point::max() - now) {
    return changed.wait_until(lock, now + timeout, ready);
  }
  changed.wait(lock, ready);  // the clock does not count that far
  return true;
}

}  // namespace skyward::engine
