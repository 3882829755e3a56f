#include "skyward/worker/worker_notice.h"

#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "skyward/base/stderr_line.h"
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
    std::unique_lock lock(mutex_);
    callbacks_.clear();
    returned_.wait(lock, [this] { return !calling_; });
  }

 private:
  void listen() {
    while (true) {
      while (sem_wait(&rings_) != 0 && errno == EINTR) {
      }
      while (auto callback = next()) {
        const Duration left = Time(Duration(gone_at.load())) - io::EventLoop::now();
        call(callback, std::max(left, Duration{}));
        callback = nullptr;  // with what it has captured
        const std::scoped_lock lock(mutex_);
        calling_ = false;
        returned_.notify_all();
      }
    }
  }

  // One by one: the task that registered them may end in between. Null when none is left.
  std::function<void(Duration)> next() {
    const std::scoped_lock lock(mutex_);
    if (callbacks_.empty()) return nullptr;
    std::function<void(Duration)> first = std::move(callbacks_.front());
    callbacks_.pop_front();
    calling_ = true;
    return first;
  }

  static void call(const std::function<void(Duration)>& callback, Duration left) {
    try {
      callback(left);
    } catch (const std::exception& error) {
      write_stderr_line(std::string("skyward: a callback of on_preemption threw: ") + error.what());
    } catch (...) {
      write_stderr_line("skyward: a callback of on_preemption threw");
    }
  }

  sem_t rings_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::deque<std::function<void(Duration)>> callbacks_;
  bool listening_ = false;
  bool calling_ = false;  // one of them, at this moment
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
