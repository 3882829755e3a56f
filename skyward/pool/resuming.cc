#include "skyward/pool/resuming.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace skyward {
namespace {

class Resumer {
 public:
  void add(std::coroutine_handle<> coroutine) {
    const std::scoped_lock lock(mutex_);
    ready_.push_back(coroutine);
    if (!std::exchange(runs_, true)) std::thread([this] { run(); }).detach();
    changed_.notify_one();
  }

 private:
  [[noreturn]] void run() {
    while (true) {
      std::vector<std::coroutine_handle<>> ready;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !ready_.empty(); });
        ready.swap(ready_);
      }
      for (const std::coroutine_handle<> coroutine : ready) coroutine.resume();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::coroutine_handle<>> ready_;
  bool runs_ = false;
};

}  // namespace

void resume_elsewhere(std::coroutine_handle<> coroutine) {
  static auto* const resumer = new Resumer;  // its thread lives until the process ends
  resumer->add(coroutine);
}

}  // namespace skyward
