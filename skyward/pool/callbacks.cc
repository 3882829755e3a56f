#include "skyward/pool/callbacks.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "skyward/base/stderr_line.h"
#include "skyward/base/wait_polling.h"
#include "skyward/io/forks.h"

namespace skyward {
namespace {

thread_local bool delivers_events = false;

class Callbacks {
 public:
  void start() {
    const std::scoped_lock lock(mutex_);
    if (thread_ != std::thread::id()) return;
    std::thread thread([this] { run(); });  // users' code: with the signals of the user's thread
    thread_ = thread.get_id();
    thread.detach();  // lives until the process ends
  }

  void add(CallbackOwner owner, std::function<void()> callback) {
    const std::scoped_lock lock(mutex_);
    ready_.push_back({owner, std::move(callback)});
    ++left_[owner];
    changed_.notify_one();
  }

  bool is_this_thread() const { return thread_.load() == std::this_thread::get_id(); }

  bool wait(CallbackOwner owner, Duration limit) {
    std::unique_lock lock(mutex_);
    return wait_within(lock, returned_, limit, [this, owner] { return !left_.contains(owner); });
  }

  bool wait_for_all(Duration limit) {
    std::unique_lock lock(mutex_);
    return wait_within(lock, returned_, limit, [this] { return left_.empty(); });
  }

 private:
  struct Owned {
    CallbackOwner owner;
    std::function<void()> callback;
  };

  [[noreturn]] void run() {
    while (true) {
      std::vector<Owned> ready;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !ready_.empty(); });
        ready.swap(ready_);
      }
      for (Owned& one : ready) {
        call(std::exchange(one.callback, nullptr));
        const std::scoped_lock lock(mutex_);
        const auto left = left_.find(one.owner);
        if (--left->second == 0) left_.erase(left);
        returned_.notify_all();
      }
    }
  }

  static void call(const std::function<void()>& callback) {
    try {
      callback();
    } catch (const std::exception& error) {
      write_stderr_line(std::string("skyward: a callback of a future threw an exception: ") +
                        error.what());
    } catch (...) {
      write_stderr_line("skyward: a callback of a future threw an exception");
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable returned_;
  std::vector<Owned> ready_;
  std::unordered_map<CallbackOwner, std::size_t> left_;  // that wait or run
  std::atomic<std::thread::id> thread_;                  // none before it starts
};

// A forked child has a thread of its own, when it needs one.
Callbacks& callbacks() { return io::of_this_process<Callbacks>(); }

}  // namespace

void start_callbacks() { callbacks().start(); }

void call_back(CallbackOwner owner, std::function<void()> callback) {
  callbacks().add(owner, std::move(callback));
}

void note_events_thread() { delivers_events = true; }

bool runs_callbacks() { return delivers_events || callbacks().is_this_thread(); }

bool wait_for_callbacks(CallbackOwner owner, Duration limit) {
  return runs_callbacks() || callbacks().wait(owner, limit);
}

bool wait_for_all_callbacks(Duration limit) {
  return runs_callbacks() || callbacks().wait_for_all(limit);
}

}  // namespace skyward
