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
  // Now and so much more must still be a time that the clock counts to.
  constexpr Duration kLongest = std::chrono::years(100);
  if (timeout < kLongest) return changed.wait_for(lock, timeout, ready);
  changed.wait(lock, ready);
  return true;
}

}  // namespace skyward::engine
