#include "skyward/agent/core_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/agent/core_index.h"
#include "skyward/agent/core_start.h"
#include "skyward/base/check.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;

std::deque<TaskId>& queue_of(AgentState& state, const AgentTask& task) {
  return task.run.worker ? state.pinned[*task.run.worker] : state.queue;
}

AgentTask& task_at(AgentState& state, TaskId id) {
  const auto found = state.tasks.find(id);
  SKYWARD_CHECK(found != state.tasks.end(), "task {}", id.value);
  return found->second;
}

// After a change of the queue that the task is or was in.
void note_pinned(AgentState& state, const AgentTask& task) {
  if (!task.run.worker) return;
  if (state.pinned[*task.run.worker].empty()) {
    state.pinned_waiting.erase(*task.run.worker);
  } else {
    state.pinned_waiting.insert(*task.run.worker);
  }
}

// The queue that the slot takes from next, or nothing: whichever front came first.
std::deque<TaskId>* next_queue(AgentState& state, const Slot& slot) {
  std::deque<TaskId>* own = slot.place == 0 ? &state.pinned[slot.worker] : nullptr;
  std::deque<TaskId>* any = &state.queue;
  const bool has_own = own != nullptr && !own->empty();
  if (!has_own) return any->empty() ? nullptr : any;
  if (any->empty()) return own;
  return task_at(state, own->front()).arrival < task_at(state, any->front()).arrival ? own : any;
}

// Callers measure how many calls make a group that takes about as long.
constexpr Duration kGroupRunTime = kWorkerWindowWork / 4;

Duration expected_run_time(const AgentState& state, const wire::RunTask& run) {
  if (is_group(run)) return kGroupRunTime;
  const auto found = state.run_times.find(run.function);
  return found == state.run_times.end() ? kWorkerWindowWork : found->second;
}

// Whether a task of the function may wait inside the process behind what it has.
bool has_room(const AgentState& state, const Slot& slot, const wire::RunTask& run, Time now) {
  if (slot.window.size() >= kMaxWorkerWindow || slot.withdrew || slot.kill_at != kNever)
    return false;
  const Duration ahead = std::max(slot.expected, now - slot.front_since);
  return ahead + expected_run_time(state, run) <= kWorkerWindowWork;
}

void give(AgentState& state, AgentEffects& effects, Slot& slot, std::deque<TaskId>& queue,
          Time now) {
  const TaskId id = queue.front();
  queue.pop_front();
  AgentTask& task = task_at(state, id);
  note_pinned(state, task);
  const bool behind = !slot.window.empty();
  task.slot = slot.id;
  task.expected = expected_run_time(state, task.run);
  slot.expected += task.expected;
  slot.window.push_back(id);
  if (!behind) slot.front_since = slot.moved_at = now;
  reindex(state, slot);
  SharedBytes body;
  if (slot.functions.insert(task.run.function).second) body = task.body;
  effects.run(slot.id, {.task = task.run, .body = std::move(body), .behind = behind});
}

Slot& first_slot(AgentState& state, std::uint32_t worker) {
  return state.slots[std::size_t{worker} * state.configure.concurrency];
}

bool is_stream(const wire::RunTask& run) { return run.stream_window > 0 && !is_group(run); }

// Whether a slot besides the first ones is about to be free, with a process that starts.
bool another_may_start(const AgentState& state, Time now) {
  return std::ranges::any_of(state.slots, [now](const Slot& slot) {
    if (slot.place == 0) return false;
    if (slot.phase == SlotPhase::queued || slot.phase == SlotPhase::starting) return true;
    return slot.phase == SlotPhase::absent && now >= slot.retry_at;
  });
}

// A task for each slot that runs none. First slots come last, since broadcasts run there alone; and
// a stream, which may read on for as long as others answer, leaves them free where it can.
void feed_idle(AgentState& state, AgentEffects& effects, Time now) {
  for (const bool is_first : {false, true}) {
    for (auto next = state.idle.begin(); next != state.idle.end() && !state.queue.empty();) {
      Slot& slot = state.slots[(next++)->value];  // giving it a task takes it out
      if ((slot.place == 0) != is_first) continue;
      std::deque<TaskId>& queue = *next_queue(state, slot);
      if (is_first && &queue == &state.queue && is_stream(task_at(state, queue.front()).run) &&
          another_may_start(state, now)) {
        continue;
      }
      give(state, effects, slot, queue, now);
    }
  }
  for (auto next = state.pinned_waiting.begin(); next != state.pinned_waiting.end();) {
    const std::uint32_t worker = *next++;  // the last one takes it out
    Slot& slot = first_slot(state, worker);
    if (is_usable(slot) && slot.window.empty())
      give(state, effects, slot, state.pinned[worker], now);
  }
}

// One more for each slot that has room behind what it runs. False when none has.
bool feed_open(AgentState& state, AgentEffects& effects, Time now) {
  std::vector<SlotId> slots;
  if (!state.queue.empty()) {
    const wire::RunTask& run = task_at(state, state.queue.front()).run;
    const Duration most = kWorkerWindowWork - expected_run_time(state, run);
    for (const auto& [expected, id] : state.open) {
      if (expected > most) break;
      slots.push_back(id);
    }
  }
  for (const std::uint32_t worker : state.pinned_waiting)
    slots.push_back(first_slot(state, worker).id);
  std::ranges::sort(slots);
  slots.erase(std::ranges::unique(slots).begin(), slots.end());
  bool gave = false;
  for (const SlotId id : slots) {
    Slot& slot = state.slots[id.value];
    if (!is_usable(slot) || slot.window.empty()) continue;
    auto* queue = next_queue(state, slot);
    if (queue == nullptr) continue;
    if (!has_room(state, slot, task_at(state, queue->front()).run, now)) continue;
    give(state, effects, slot, *queue, now);
    gave = true;
  }
  return gave;
}

bool is_live(const Slot& slot) { return slot.phase != SlotPhase::absent; }

// Starts processes for tasks that no slot could take: one more for each, the lowest places first.
void start_needed(AgentState& state, AgentEffects& effects, Time now) {
  if (state.absent.empty()) return;
  std::size_t coming = 0;
  bool any_live = false;
  for (const Slot& slot : state.slots) {
    if (slot.phase == SlotPhase::queued || slot.phase == SlotPhase::starting) ++coming;
    any_live = any_live || is_live(slot);
  }
  for (std::uint32_t place = 0; place < state.configure.concurrency; ++place) {
    for (std::size_t i = place; i < state.slots.size(); i += state.configure.concurrency) {
      if (coming >= state.queue.size()) return;
      Slot& slot = state.slots[i];
      if (is_live(slot) || (any_live && now < slot.retry_at)) continue;
      slot.start_failures = 0;
      request_start(state, effects, slot, now);
      any_live = true;
      ++coming;
    }
  }
}

}  // namespace

void enqueue(AgentState& state, TaskId id) {
  AgentTask& task = task_at(state, id);
  task.withdrawn = false;
  std::deque<TaskId>& queue = queue_of(state, task);
  auto place = queue.end();
  while (place != queue.begin() && task_at(state, *std::prev(place)).arrival > task.arrival)
    --place;
  queue.insert(place, id);
  note_pinned(state, task);
}

void unqueue(AgentState& state, TaskId id) {
  const AgentTask& task = task_at(state, id);
  std::deque<TaskId>& queue = queue_of(state, task);
  const auto found = std::find(queue.begin(), queue.end(), id);
  SKYWARD_CHECK(found != queue.end(), "task {} is not queued", id.value);
  queue.erase(found);
  note_pinned(state, task);
}

void dispatch(AgentState& state, AgentEffects& effects, Time now) {
  if (state.phase != AgentPhase::ready) return;
  feed_idle(state, effects, now);
  while (feed_open(state, effects, now)) {
  }
  if (!state.queue.empty()) start_needed(state, effects, now);
  for (const std::uint32_t worker : state.pinned_waiting) {
    Slot& first = first_slot(state, worker);
    if (is_live(first)) continue;
    first.start_failures = 0;
    request_start(state, effects, first, now);
  }
}

void leave_window(AgentState& state, AgentEffects& effects, TaskId id, Time now) {
  AgentTask& task = task_at(state, id);
  Slot& slot = state.slots[task.slot->value];
  const auto found = std::find(slot.window.begin(), slot.window.end(), id);
  SKYWARD_CHECK(found != slot.window.end(), "task {} is not in its window", id.value);
  const bool front = found == slot.window.begin();
  slot.window.erase(found);
  slot.expected -= task.expected;
  task.slot.reset();
  if (!front) return reindex(state, slot);
  slot.front_since = slot.moved_at = now;
  slot.kill_at = kNever;
  slot.withdrew = slot.took_rest = false;
  if (slot.window.empty()) return reindex(state, slot);
  // A cancelled task that the process began before it heard of it has its own grace; interrupting
  // again does no harm.
  const AgentTask& next = task_at(state, slot.window.front());
  if (next.ending) {
    slot.kill_at = now + kCancelGrace;
    if (slot.killed.empty()) effects.interrupt(slot.id, slot.window.front());
  }
  reindex(state, slot);
}

void answer(AgentState& state, AgentEffects& effects, TaskId id, wire::TaskResult result) {
  const auto found = state.tasks.find(id);
  SKYWARD_CHECK(found != state.tasks.end() && !found->second.slot, "task {}", id.value);
  AgentTask& task = found->second;
  result.task = id;
  result.attempt = task.run.attempt;
  if (result.status != TaskStatus::ok)
    result.tail.assign(std::move_iterator(task.tail.begin()), std::move_iterator(task.tail.end()));
  state.tasks.erase(found);
  effects.send(std::move(result));
}

void answer_status(AgentState& state, AgentEffects& effects, TaskId id, TaskStatus status,
                   std::uint32_t worker, std::string detail) {
  wire::TaskResult result;
  result.status = status;
  result.worker = worker;
  result.detail = std::move(detail);
  answer(state, effects, id, std::move(result));
}

std::string ending_detail(const AgentTask& task) {
  if (task.ending != TaskStatus::timed_out) return "cancelled";
  return fmt::format("ran longer than {:g} s", static_cast<double>(task.run.timeout_ms) / 1000.0);
}

void end_early(AgentState& state, AgentEffects& effects, TaskId id, TaskStatus status, Time now) {
  AgentTask& task = task_at(state, id);
  if (task.ending) return;
  task.ending = status;
  if (!task.slot) {
    unqueue(state, id);
    answer_status(state, effects, id, status, task.run.worker.value_or(0), ending_detail(task));
    return;
  }
  Slot& slot = state.slots[task.slot->value];
  if (!slot.killed.empty()) return;  // its end is near and answers the task
  effects.interrupt(slot.id, id);
  if (slot.window.front() == id) slot.kill_at = now + kCancelGrace;
  reindex(state, slot);
}

}  // namespace skyward::agent
