#include "skyward/pool/callbacks.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "skyward/engine/wait_polling.h"
#include "skyward/io/forks.h"
#include "skyward/io/start_thread.h"

namespace skyward {
namespace {

class Callbacks {
 public:
  void start() {
    const std::scoped_lock lock(mutex_);
    if (thread_ != std::thread::id()) return;
    std::thread thread = io::start_thread([this] { run(); });
    thread_ = thread.get_id();
    thread.detach();  // lives until the process ends
  }

  void add(std::function<void()> callback) {
    const std::scoped_lock lock(mutex_);
    ready_.push_back(std::move(callback));
    ++added_;
    changed_.notify_one();
  }

  bool is_this_thread() const { return thread_.load() == std::this_thread::get_id(); }

  bool wait(Duration limit) {
    if (is_this_thread()) return true;
    std::unique_lock lock(mutex_);
    return engine::wait_within(lock, returned_changed_, limit,
                               [this, last = added_] { return returned_ >= last; });
  }

 private:
  [[noreturn]] void run() {
    while (true) {
      std::vector<std::function<void()>> ready;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !ready_.empty(); });
        ready.swap(ready_);
      }
      for (std::function<void()>& callback : ready) {
        call(std::exchange(callback, nullptr));
        const std::scoped_lock lock(mutex_);
        ++returned_;
        returned_changed_.notify_all();
      }
    }
  }

  static void call(const std::function<void()>& callback) {
    try {
      callback();
    } catch (const std::exception& error) {
      fmt::print(stderr, "skyward: a callback of a future threw an exception: {}\n", error.what());
    } catch (...) {
      fmt::print(stderr, "skyward: a callback of a future threw an exception\n");
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable returned_changed_;
  std::vector<std::function<void()>> ready_;
  std::uint64_t added_ = 0;
  std::uint64_t returned_ = 0;
  std::atomic<std::thread::id> thread_;  // none before it starts
};

// A forked child has a thread of its own, when it needs one.
Callbacks& callbacks() { return io::of_this_process<Callbacks>(); }

}  // namespace

void start_callbacks() { callbacks().start(); }

void call_back(std::function<void()> callback) { callbacks().add(std::move(callback)); }

bool is_callback_thread() { return callbacks().is_this_thread(); }

bool wait_for_callbacks(Duration limit) { return callbacks().wait(limit); }

}  // namespace skyward
