#include "skyward/worker/worker_notice.h"

#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "skyward/io/event_loop.h"
#include "skyward/worker/preemption.h"

namespace skyward {
namespace {

// When the machine is gone, in nanoseconds of the loop's clock; 0: nobody has said so.
std::atomic<std::int64_t> gone_at{0};

// Lives until the process ends: a signal may ring at any time.
class Bell {
 public:
  Bell() { sem_init(&rings_, 0, 0); }

  void ring() { sem_post(&rings_); }

  void add(std::function<void(Duration)> callback) {
    const std::scoped_lock lock(mutex_);
    callbacks_.push_back(std::move(callback));
    if (!std::exchange(listening_, true)) std::thread([this] { listen(); }).detach();
    if (gone_at.load() != 0) ring();
  }

  void forget() {
    const std::scoped_lock lock(mutex_);
    callbacks_.clear();
  }

 private:
  void listen() {
    while (true) {
      while (sem_wait(&rings_) != 0 && errno == EINTR) {
      }
      std::vector<std::function<void(Duration)>> due;
      {
        const std::scoped_lock lock(mutex_);
        due.swap(callbacks_);
      }
      const Duration left = Time(Duration(gone_at.load())) - io::EventLoop::now();
      for (const auto& callback : due) call(callback, std::max(left, Duration{}));
    }
  }

  static void call(const std::function<void(Duration)>& callback, Duration left) {
    try {
      callback(left);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "skyward: a callback of on_preemption threw: %s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "skyward: a callback of on_preemption threw\n");
    }
  }

  sem_t rings_;
  std::mutex mutex_;
  std::vector<std::function<void(Duration)>> callbacks_;
  bool listening_ = false;
};

Bell& bell() {
  static Bell& only = *new Bell;
  return only;
}
// Made before any signal can come: a function's first call of bell() may not be in its handler.
[[maybe_unused]] Bell& made_early = bell();

}  // namespace

void on_preemption(std::function<void(Duration left)> callback) { bell().add(std::move(callback)); }

void note_preemption(std::uint64_t left_ms) {
  const Time end = io::EventLoop::now() + std::chrono::milliseconds(left_ms);
  gone_at.store(end.time_since_epoch().count());
  bell().ring();
}

void forget_preemption_callbacks() { bell().forget(); }

}  // namespace skyward
