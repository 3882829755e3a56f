#include "skyward/agent/core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "skyward/agent/core_index.h"
#include "skyward/agent/core_node.h"
#include "skyward/agent/core_schedule.h"
#include "skyward/agent/core_start.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/blobs_of.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;

constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 20;  // of one Output message, roughly
constexpr std::size_t kLineOverheadBytes = 64;

static_assert(kTailLines * (kMaxLineBytes + kLineOverheadBytes) < kMaxFrameHeaderBytes / 2,
              "the last lines of a task fit into its answer's header");

void remember_line(std::list<std::string>& tail, const std::string& line) {
  tail.push_back(line);
  if (tail.size() > kTailLines) tail.pop_front();
}

std::string size_text(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1024.0 * 1024.0);
  return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

// What the user reads when a task took its worker with it.
std::string death_detail(const WorkerExit& end, const std::string& killed) {
  const std::string peak = end.peak_bytes > 0
                               ? fmt::format("; its peak memory was {}",
                                             size_text(static_cast<std::uint64_t>(end.peak_bytes)))
                               : "";
  if (!killed.empty()) return fmt::format("the worker process was killed: {}{}", killed, peak);
  if (!end.by_signal)
    return fmt::format(
        "the worker process exited with code {} while it ran the task, as if the function had "
        "called exit(){}",
        end.code, peak);
  std::string text =
      fmt::format("the worker process was {} while it ran the task{}", end.text, peak);
  if (!end.by_sigkill) return text;
  return text +
         ". Skyward did not send that signal; the kernel does when memory runs out: use less "
         "memory in the function, fewer slots, or a larger machine";
}

// The same when no process has begun the task.
std::string early_death_detail(std::uint32_t times, const std::string& how) {
  return fmt::format("the worker process ended {} times in a row before it began a task: {}", times,
                     how);
}

void on_worker_result(AgentState& state, AgentEffects& effects, Slot& slot,
                      wire::WorkerMessage message, Time now) {
  const TaskId id = message.task;
  AgentTask& task = state.tasks.at(id);
  const bool cancelled = message.status == wire::WorkerStatus::cancelled;
  if (cancelled ? !task.ending && !task.withdrawn : slot.window.front() != id)
    return on_worker_broken(state, effects, slot.id,
                            fmt::format("it answered task {} out of order", id.value));
  const FunctionId function = task.run.function;
  const bool group = is_group(task.run);
  if (cancelled && !task.ending && task.delivered)
    return on_worker_broken(state, effects, slot.id,
                            fmt::format("it returned task {}, which has begun", id.value));
  leave_window(state, effects, id, now);
  if (cancelled && !task.ending) {
    enqueue(state, id);
    return dispatch(state, effects, now);
  }
  if (cancelled) {
    wire::TaskResult result;
    result.status = task.ending.value_or(TaskStatus::cancelled);
    result.worker = slot.worker;
    result.run_ns = message.run_ns;
    result.detail = ending_detail(task);
    result.retained = std::move(message.retained);
    answer(state, effects, id, std::move(result));
    return dispatch(state, effects, now);
  }
  if (!group) {
    const Duration took{static_cast<Duration::rep>(std::min(message.run_ns, wire::kMaxRunNs))};
    Duration& estimate = state.run_times.try_emplace(function, took).first->second;
    estimate = std::max(took, estimate - (estimate - took) / 4);
  }
  wire::TaskResult result;
  result.status = message.status == wire::WorkerStatus::ok ? TaskStatus::ok : TaskStatus::raised;
  result.worker = slot.worker;
  result.payload = std::move(message.payload);
  result.run_ns = message.run_ns;
  result.retained = std::move(message.retained);
  answer(state, effects, id, std::move(result));
  dispatch(state, effects, now);
}

// Answers for a task that was to end, and has ended with its process.
void answer_ended(AgentState& state, AgentEffects& effects, TaskId id, std::uint32_t worker) {
  const AgentTask& task = state.tasks.at(id);
  wire::TaskResult result;
  result.status = task.ending.value_or(TaskStatus::cancelled);
  result.worker = worker;
  result.detail = ending_detail(task);
  result.retained = wire::blobs_of(task.run.arguments);  // children of the process may live on
  answer(state, effects, id, std::move(result));
}

// The process is gone: the task that it had begun is answered, the others go back to the queue.
void release_window(AgentState& state, AgentEffects& effects, Slot& slot, const WorkerExit& end,
                    Time now) {
  bool begun = std::ranges::find(slot.window, end.begun) != slot.window.end();
  const bool left = end.begun != TaskId{} && end.code == wire::kWorkerLeavesCode;
  bool front = !left;  // which may be to blame
  const std::string& how = slot.killed.empty() ? end.text : slot.killed;
  while (!slot.window.empty()) {
    const TaskId id = slot.window.front();
    AgentTask& task = state.tasks.at(id);
    slot.window.pop_front();
    task.slot.reset();
    if (task.ending) {
      answer_ended(state, effects, id, slot.worker);
    } else if (begun || task.delivered) {
      answer_status(state, effects, id, TaskStatus::worker_died, slot.worker,
                    death_detail(end, slot.killed));
    } else if (front && ++task.unread > kMaxUnreadTries) {
      answer_status(state, effects, id, TaskStatus::not_begun, slot.worker,
                    early_death_detail(task.unread, how));
    } else {
      // What was written since the task was sent is the process's own.
      for (const std::string& line : std::exchange(task.tail, {})) remember_line(slot.tail, line);
      enqueue(state, id);
    }
    begun = begun && id != end.begun;
    front = false;
  }
  slot.expected = Duration{};
  slot.front_since = slot.moved_at = now;
  slot.kill_at = kNever;
  slot.withdrew = slot.took_rest = false;
  reindex(state, slot);
}

// No slot of these tasks will come: tell them why. If each process was to begin the same function,
// only those of that function; the others try the slot, too.
void fail_waiting(AgentState& state, AgentEffects& effects, const Slot& broken,
                  const std::string& reason) {
  const auto is_hit = [&](TaskId id) {
    return !broken.unread || state.tasks.at(id).run.function == *broken.unread;
  };
  const auto fail_queue = [&](std::deque<TaskId>& queue) {
    const auto behind = std::ranges::stable_partition(queue, std::not_fn(is_hit));
    const std::vector<TaskId> hit(behind.begin(), behind.end());
    queue.erase(behind.begin(), behind.end());
    for (const TaskId id : hit) {
      state.tasks.at(id).tail = broken.tail;
      answer_status(state, effects, id, TaskStatus::not_begun, broken.worker, reason);
    }
  };
  if (broken.place == 0) {
    fail_queue(state.pinned[broken.worker]);
    if (state.pinned[broken.worker].empty()) state.pinned_waiting.erase(broken.worker);
  }
  if (all_ended(state)) fail_queue(state.queue);
}

// Of the task that the process was to begin first.
std::optional<FunctionId> first_function(const AgentState& state, const Slot& slot) {
  if (slot.window.empty()) return std::nullopt;
  return state.tasks.at(slot.window.front()).run.function;
}

// The size of the function that the slot's processes did not live to begin, if it is large; else 0.
std::size_t heavy_bytes(const AgentState& state, const Slot& slot) {
  if (!slot.unread || !state.bodies.contains(*slot.unread)) return 0;
  const std::size_t size = state.bodies.at(*slot.unread).size();
  return size < kHeavyFunctionBytes ? 0 : size;
}

void on_start_failed(AgentState& state, AgentEffects& effects, Slot& slot, const WorkerExit& end,
                     std::optional<FunctionId> unread, Time now) {
  const std::string how = slot.killed.empty() ? end.text : slot.killed;
  if (++slot.start_failures == 1) slot.unread = unread;
  if (slot.unread != unread) slot.unread.reset();
  if (slot.start_failures < kMaxWorkerStartFailures)
    return request_start(state, effects, slot, now);
  slot.phase = SlotPhase::absent;
  slot.retry_at = now + kWorkerStartTimeout;
  reindex(state, slot);
  start_queued(state, effects, now);
  const std::size_t heavy = heavy_bytes(state, slot);
  const bool has_begun_nothing = !state.has_begun && heavy == 0 && all_ended(state) &&
                                 ++state.failed_rounds >= kMaxFailedRounds;
  if (state.phase != AgentPhase::starting && !has_begun_nothing) {
    std::string why = early_death_detail(slot.start_failures, how);
    if (heavy > 0)
      why += fmt::format("; the function, with what it refers to, takes {}", size_text(heavy));
    return fail_waiting(state, effects, slot, why);
  }
  wire::Failed failed;
  failed.step = "server";
  failed.command = fmt::format("{}", fmt::join(state.configure.worker_command, " "));
  failed.reason = how;
  if (has_begun_nothing)
    failed.reason = fmt::format("no worker process has begun a task; the last one: {}", how);
  failed.lines.assign(slot.tail.begin(), slot.tail.end());
  fail_node(state, effects, std::move(failed));
}

}  // namespace

void on_worker_hello(AgentState& state, AgentEffects& effects, SlotId id, Time now) {
  Slot& slot = state.slots[id.value];
  if (slot.phase != SlotPhase::starting || !slot.killed.empty()) return;
  slot.phase = SlotPhase::ready;
  slot.start_deadline = kNever;
  reindex(state, slot);
  start_queued(state, effects, now);
  if (slot.info_changed) tell_info(state, effects, slot);
  const bool was_warned = state.warn_at == kNever;
  const Time ends = was_warned ? std::min(state.gone_at, state.pool_ends) : state.gone_at;
  if (ends != kNever) effects.warn(id, std::max(ends - now, Duration{}));
  become_ready(state, effects, now);
  dispatch(state, effects, now);
}

void on_worker_message(AgentState& state, AgentEffects& effects, SlotId id,
                       wire::WorkerMessage message, Time now) {
  if (state.phase == AgentPhase::stopping || state.phase == AgentPhase::ended)
    return;  // nobody asks any more
  Slot& slot = state.slots[id.value];
  const auto found = state.tasks.find(message.task);
  if (found == state.tasks.end() || found->second.slot != slot.id)
    return on_worker_broken(
        state, effects, id,
        fmt::format("it mentioned task {}, which it did not receive", message.task.value));
  state.has_begun |= message.status != wire::WorkerStatus::cancelled;
  if (message.kind == wire::WorkerKind::result)
    return on_worker_result(state, effects, slot, std::move(message), now);
  if (message.kind != wire::WorkerKind::item)
    return on_worker_broken(state, effects, id, "it sent a message out of order");
  if (slot.window.front() != message.task || found->second.items_left == 0)
    return on_worker_broken(
        state, effects, id,
        fmt::format("it sent an item of task {} that nobody requested", message.task.value));
  --found->second.items_left;
  found->second.delivered = true;
  if (is_group(found->second.run)) {  // one of its calls has ended
    slot.moved_at = now;
    reindex(state, slot);
  }
  effects.send(wire::StreamItem{.task = message.task,
                                .attempt = found->second.run.attempt,
                                .payload = std::move(message.payload)});
}

void on_worker_broken(AgentState& state, AgentEffects& effects, SlotId id, std::string reason) {
  Slot& slot = state.slots[id.value];
  if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, std::move(reason));
}

void on_worker_exit(AgentState& state, AgentEffects& effects, SlotId id, const WorkerExit& end,
                    Time now) {
  Slot& slot = state.slots[id.value];
  const bool was_starting = slot.phase == SlotPhase::starting;
  if (state.phase == AgentPhase::stopping || state.phase == AgentPhase::failed ||
      state.phase == AgentPhase::ended) {
    slot.phase = SlotPhase::absent;
    slot.killed.clear();
    for (const TaskId task : slot.window) state.tasks.erase(task);
    slot.window.clear();
    slot.expected = Duration{};
    reindex(state, slot);
    if (state.phase == AgentPhase::stopping && all_ended(state)) finish_closed(state, effects);
    return;
  }
  state.has_begun |= end.begun != TaskId{};
  const std::optional<FunctionId> unread = first_function(state, slot);
  release_window(state, effects, slot, end, now);
  // One that was ready for long started well.
  const bool lasted = !was_starting && now >= slot.started_at + kWorkerStartTimeout;
  if (end.begun == TaskId{} && !lasted) {
    on_start_failed(state, effects, slot, end, unread, now);
  } else {
    slot.start_failures = 0;
    request_start(state, effects, slot, now);
  }
  dispatch(state, effects, now);
}

void on_output(AgentState& state, AgentEffects& effects, SlotId id,
               std::vector<wire::OutputLine> lines) {
  if (lines.empty()) return;
  Slot& slot = state.slots[id.value];
  for (std::span<const wire::OutputLine> rest = lines; !rest.empty();) {
    const auto of_another = [&](const wire::OutputLine& line) {
      return line.task != rest.front().task;
    };
    const auto end = std::ranges::find_if(rest, of_another);
    const auto same = rest.first(static_cast<std::size_t>(end - rest.begin()));
    const auto found = state.tasks.find(rest.front().task);
    auto& tail = found == state.tasks.end() ? slot.tail : found->second.tail;
    for (const wire::OutputLine& line : same.last(std::min(same.size(), kTailLines))) {
      remember_line(tail, line.text);
    }
    rest = rest.subspan(same.size());
  }
  // Each message well below what a frame takes.
  wire::Output output;
  std::size_t bytes = 0;
  for (wire::OutputLine& line : lines) {
    bytes += line.text.size() + kLineOverheadBytes;
    output.lines.push_back(std::move(line));
    if (bytes < kMaxOutputBytes) continue;
    effects.send(std::exchange(output, {}));
    bytes = 0;
  }
  if (!output.lines.empty()) effects.send(std::move(output));
}

}  // namespace skyward::agent
