#pragma once

// Waits on a condition in steps, so that `poll` is called meanwhile: a caller's thread notices an
// interrupt of its program there. It is called once at least, may be empty, and may throw.

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

}  // namespace skyward::engine
