#include "skyward/pool/task_table.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/base/relax.h"
#include "skyward/engine/loop.h"

namespace skyward {

void TaskState::finish(Outcome result) {
  std::function<void()> callback, last;
  pace->ended(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(result.run_seconds)));
  {
    const std::scoped_lock lock(mutex);
    result_bytes = result.payload.size();
    outcome = std::move(result);
    done = true;
    callback = std::move(on_done);
    last = std::move(after_done);
  }
  // Without the mutex: whoever wakes would only wait for it.
  changed.notify_all();
  if (callback) callback();
  if (last) last();
}

void TaskState::add_item(const wire::Payload& item) {
  std::function<void(const wire::Payload&)> callback;
  {
    const std::scoped_lock lock(mutex);
    items.push_back(item);
    callback = on_item;
  }
  changed.notify_all();
  if (callback) callback(item);
}

Duration TaskState::wait_awake(Duration timeout) const {
  if (done || !pace->should_spin()) return Duration{};
  pace->spins_on(engine::EngineLoop::current_core());
  const Duration most = std::min(timeout, kLongestSpin);
  const Time begin = engine::EngineLoop::now();
  Duration spun{};
  while (!done && spun < most) {
    relax();
    spun = engine::EngineLoop::now() - begin;
  }
  if (done) pace->answered();
  return std::min(spun, most);
}

void TaskTable::add(const States& states) {
  const std::scoped_lock lock(mutex_);
  for (const auto& state : states) tasks_.emplace(state->id, state);
}

void TaskTable::remove(const States& states) {
  const std::scoped_lock lock(mutex_);
  for (const auto& state : states) tasks_.erase(state->id);
}

std::shared_ptr<TaskState> TaskTable::find(TaskId task) const {
  const std::scoped_lock lock(mutex_);
  const auto found = tasks_.find(task);
  return found == tasks_.end() ? nullptr : found->second;
}

std::shared_ptr<TaskState> TaskTable::take(TaskId task) {
  const std::scoped_lock lock(mutex_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return nullptr;
  auto state = std::move(found->second);
  tasks_.erase(found);
  return state;
}

std::size_t TaskTable::size() const {
  const std::scoped_lock lock(mutex_);
  return tasks_.size();
}

std::vector<Handle> TaskTable::handles(States states) {
  std::vector<Handle> handles;
  handles.reserve(states.size());
  for (auto& state : states) handles.push_back(Handle(std::move(state)));
  return handles;
}

}  // namespace skyward
