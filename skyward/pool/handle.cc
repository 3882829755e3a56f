#include "skyward/pool/handle.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "skyward/base/wait_polling.h"
#include "skyward/call/error.h"
#include "skyward/engine/loop.h"
#include "skyward/io/forks.h"
#include "skyward/pool/task_table.h"

namespace skyward {
namespace {

std::function<void()> in_order(std::function<void()> first, std::function<void()> second) {
  return [first = std::move(first), second = std::move(second)] {
    first();
    second();
  };
}

}  // namespace

TaskState& Handle::state() const {
  if (!state_) {
    throw SkywardError("this handle or future refers to no task: it is empty or was moved from");
  }
  if (io::process_generation() != state_->owner) {
    throw NotProvisionedError(
        "this handle or future belongs to the process that this one was forked from, and its "
        "result arrives there\nhint: wait for it in the parent, or open a pool of its own here");
  }
  return *state_;
}

std::uint64_t Handle::task() const {
  TaskState& task = state();
  const std::scoped_lock lock(task.mutex);
  return task.id.value;
}

const void* Handle::pool() const { return state().pace.get(); }

bool Handle::done() const { return state().done; }

bool Handle::wait(Duration timeout) const {
  TaskState& task = state();
  const Duration left = timeout > Duration{} ? timeout - task.wait_awake(timeout) : timeout;
  std::unique_lock lock(task.mutex);
  return wait_within(lock, task.changed, left, [&] { return task.done.load(); });
}

Outcome Handle::take() {
  TaskState& task = state();
  const std::scoped_lock lock(task.mutex);
  if (!task.done) {
    throw SkywardError(
        fmt::format("task {} is not done: call wait() before take()", task.id.value));
  }
  if (std::exchange(task.taken, true)) {
    throw SkywardError(fmt::format(
        "the result of task {} was already taken: take() and get() return it once", task.id.value));
  }
  return std::move(task.outcome);
}

std::uint64_t Handle::result_bytes() const {
  TaskState& task = state();
  const std::scoped_lock lock(task.mutex);
  return task.result_bytes;
}

double Handle::run_seconds() const {
  TaskState& task = state();
  const std::scoped_lock lock(task.mutex);
  return task.outcome.run_seconds;  // stays when the outcome is moved out
}

void Handle::cancel() {
  TaskState& task = state();
  TaskId id;
  {
    const std::scoped_lock lock(task.mutex);
    task.cancelled = true;
    id = task.id;
  }
  task.loop->borrow([id](engine::EngineLoop& loop) { loop.cancel(id); });
}

void Handle::on_done(std::function<void()> callback) {
  TaskState& task = state();
  {
    const std::scoped_lock lock(task.mutex);
    if (!task.done) {
      task.on_done = task.on_done ? in_order(std::move(task.on_done), std::move(callback))
                                  : std::move(callback);
      return;
    }
  }
  callback();
}

void Handle::after_done(std::function<void()> callback) {
  TaskState& task = state();
  {
    const std::scoped_lock lock(task.mutex);
    if (!task.done) {
      task.after_done = std::move(callback);
      return;
    }
  }
  callback();
}

std::list<wire::Payload> Handle::take_items() {
  TaskState& task = state();
  const std::scoped_lock lock(task.mutex);
  return std::exchange(task.items, {});
}

bool Handle::has_items() const {
  TaskState& task = state();
  const std::scoped_lock lock(task.mutex);
  return !task.items.empty();
}

void Handle::on_item(std::function<void(const wire::Payload&)> callback) {
  TaskState& task = state();
  std::list<wire::Payload> here;
  {
    const std::scoped_lock lock(task.mutex);
    here = task.items;
    task.on_item = callback;
  }
  for (const wire::Payload& item : here) callback(item);
}

NextItem Handle::next(wire::Payload& item, Duration timeout) {
  TaskState& task = state();
  std::unique_lock lock(task.mutex);
  const auto ready = [&] { return task.done || !task.items.empty(); };
  if (!wait_within(lock, task.changed, timeout, ready)) return NextItem::time_over;
  if (task.items.empty()) return NextItem::ended;
  item = std::move(task.items.front());
  task.items.pop_front();
  lock.unlock();
  task.loop->borrow([&task](engine::EngineLoop& loop) { loop.item_taken(task.id, 1); });
  return NextItem::item;
}

}  // namespace skyward
