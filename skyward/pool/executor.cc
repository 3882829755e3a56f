#include "skyward/pool/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include "skyward/base/wait_polling.h"
#include "skyward/call/error.h"
#include "skyward/engine/loop.h"
#include "skyward/io/forks.h"
#include "skyward/pool/callbacks.h"

namespace skyward {

struct Executor::Places {
  explicit Places(int count) : limit(count) {}

  void leave() {
    const std::scoped_lock lock(mutex);
    if (--taken == 0) empty.notify_all();
    left.notify_one();
  }

  bool are_ours() const { return io::process_generation() == owner; }
  void check_owner() const {
    if (are_ours()) return;
    throw NotProvisionedError(
        "this executor belongs to the process that this one was forked from\n"
        "hint: open a pool here, and make an executor for it");
  }

  const int limit;
  const std::uint64_t owner = io::process_generation();
  std::mutex mutex;
  std::condition_variable left;
  std::condition_variable empty;
  int taken = 0;
};

Executor::Place::~Place() {
  if (places_) places_->leave();
}

std::function<void()> Executor::Place::freeing() && {
  return [places = std::move(places_)] { places->leave(); };
}

Executor::Executor(ComputePool& pool, int max_in_flight)
    : pool_(pool),
      places_(std::make_shared<Places>(max_in_flight)),
      exceptions_(std::uncaught_exceptions()) {
  if (max_in_flight > 0) return;
  throw ConfigurationError(fmt::format(
      "Executor(pool, {}): the number of calls in flight must be at least 1; leave it out for {}",
      max_in_flight, kExecutorCalls));
}

Executor::~Executor() {
  if (std::uncaught_exceptions() == exceptions_ && places_->are_ours()) wait();
}

Executor::Place Executor::take_place() {
  places_->check_owner();
  std::unique_lock lock(places_->mutex);
  places_->left.wait(lock, [this] { return places_->taken < places_->limit; });
  ++places_->taken;
  return Place(places_);
}

bool Executor::wait(TimeLimit limit) {
  places_->check_owner();
  const Time begin = engine::EngineLoop::now();
  {
    std::unique_lock lock(places_->mutex);
    const auto is_empty = [this] { return places_->taken == 0; };
    if (!wait_within(lock, places_->empty, limit, is_empty)) return false;
  }
  const Duration spent = engine::EngineLoop::now() - begin;
  return wait_for_callbacks(pool_.untyped().identity(),
                            std::max(Duration(limit) - spent, Duration{}));
}

int Executor::in_flight() const {
  const std::scoped_lock lock(places_->mutex);
  return places_->taken;
}

}  // namespace skyward
