#include "skyward/agent/core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "skyward/agent/core_index.h"
#include "skyward/agent/core_schedule.h"
#include "skyward/agent/core_start.h"
#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/topology.h"
#include "skyward/wire/group.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;

constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 20;  // of one Output message, roughly
constexpr std::size_t kLineOverheadBytes = 64;
constexpr const char* kClosed = "the pool was closed";
constexpr std::uint64_t kMaxRunNs = std::uint64_t{1} << 50;    // two weeks; longer makes no odds
constexpr std::uint64_t kMaxLeaseMs = std::uint64_t{1} << 40;  // some decades

// "0 NAME=VALUE" or "* NAME=VALUE"; the script is ours, so what does not fit is no variable.
void set_variable(AgentState& state, const std::string& line) {
  const std::size_t blank = line.find(' ');
  const std::size_t equals = line.find('=', std::min(blank, line.size()));
  if (equals == std::string::npos) return;
  const std::string which = line.substr(0, blank);
  const std::string name = line.substr(blank + 1, equals - blank - 1);
  for (std::size_t worker = 0; worker < state.told_environment.size(); ++worker) {
    if (which == "*" || which == std::to_string(worker))
      state.told_environment[worker].emplace_back(name, line.substr(equals + 1));
  }
}

std::uint64_t elapsed_ms(const AgentState& state, Time now) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now - state.configured_at).count());
}

void remember_line(std::list<std::string>& tail, const std::string& line) {
  tail.push_back(line);
  if (tail.size() > kTailLines) tail.pop_front();
}

// What a script does next that does not say what it begins.
std::string step_after(const std::string& step) {
  if (step == "uv") return "apt";
  if (step == "apt") return "deps";
  return "skyward";
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

void fail_node(AgentState& state, AgentEffects& effects, wire::Failed failed) {
  state.phase = AgentPhase::failed;
  const std::string detail =
      fmt::format("the node failed in step {}: {}", failed.step, failed.reason);
  effects.send(std::move(failed));
  for (Slot& slot : state.slots)
    if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, detail);
  state.queue.clear();
  for (auto& queue : state.pinned) queue.clear();
  state.pinned_waiting.clear();
  std::vector<TaskId> waiting;
  for (const auto& [id, task] : state.tasks) waiting.push_back(id);
  std::sort(waiting.begin(), waiting.end());
  for (const TaskId id : waiting)
    answer_status(state, effects, id, TaskStatus::worker_died, 0, detail);
}

// Once the bootstrap is through and the devices, which the workers are told of, are known.
void start_workers(AgentState& state, AgentEffects& effects, Time now) {
  if (state.phase != AgentPhase::bootstrapping || !state.bootstrapped || !state.accelerators)
    return;
  state.phase = AgentPhase::starting;
  for (Slot& slot : state.slots)
    if (slot.place == 0) request_start(state, effects, slot, now);
}

void become_ready(AgentState& state, AgentEffects& effects, Time now) {
  if (state.phase != AgentPhase::starting) return;
  for (const Slot& slot : state.slots)
    if (slot.place == 0 && slot.phase != SlotPhase::ready) return;
  state.phase = AgentPhase::ready;
  effects.send(wire::Ready{.accelerators = *state.accelerators,
                           .elapsed_ms = elapsed_ms(state, now),
                           .peer_port = state.peer_port});
  dispatch(state, effects, now);
}

void start_lease(AgentState& state, Time now) {
  const auto length = [](std::uint64_t ms) {
    return std::chrono::milliseconds(std::min(ms, kMaxLeaseMs));
  };
  if (state.configure.lease_ms > 0) state.lease_ends = now + length(state.configure.lease_ms);
  if (state.configure.lifetime_ms == 0) return;
  const Duration lifetime = length(state.configure.lifetime_ms);
  state.lifetime_ends = now + lifetime;
  state.warn_at = state.lifetime_ends - std::min(kEndWarning, lifetime / 2);
}

void on_configure(AgentState& state, AgentEffects& effects, const wire::Configure& configure,
                  Time now) {
  if (state.phase != AgentPhase::greeting) return;  // once, by contract
  state.configure = configure;
  state.configure.concurrency = std::max(1U, configure.concurrency);
  state.configured_at = now;
  start_lease(state, now);
  const auto workers = static_cast<std::uint32_t>(configure.workers.size());
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (std::uint32_t place = 0; place < state.configure.concurrency; ++place) {
      Slot& slot = state.slots.emplace_back();
      slot.id = SlotId{worker * state.configure.concurrency + place};
      slot.worker = worker;
      slot.place = place;
      reindex(state, slot);
    }
  }
  state.pinned.resize(workers);
  state.told_environment.resize(workers);
  state.phase = AgentPhase::bootstrapping;
  state.bootstrapped = configure.bootstrap.empty();
  if (state.bootstrapped) return start_workers(state, effects, now);
  state.step = "uv";
  state.bootstrap_deadline = now + kBootstrapTimeout;
  effects.start_bootstrap(state.configure);
}

// A buffer whose blob came without a descriptor means the blob this node has. False when it has
// not.
bool resolve_blobs(AgentState& state, wire::Payload& payload) {
  for (wire::Buffer& buffer : payload.buffers) {
    if (!buffer.in_blob()) continue;
    if (buffer.blob.descriptor >= 0) {
      if (buffer.blob.id.value != 0) state.blobs.try_emplace(buffer.blob.id, buffer.blob);
      continue;
    }
    const auto found = state.blobs.find(buffer.blob.id);
    if (found == state.blobs.end()) return false;
    buffer.blob = found->second;
  }
  return true;
}

void on_run_task(AgentState& state, AgentEffects& effects, const wire::RunTask& run, Time now) {
  if (state.phase == AgentPhase::stopping || state.phase == AgentPhase::ended) return;
  const auto [place, is_new] = state.tasks.try_emplace(run.task);
  if (!is_new) return;  // this attempt or another is here and will be answered
  AgentTask& task = place->second;
  task.run = run;
  task.run.body = {};
  task.items_left = run.stream_window;
  task.arrival = ++state.arrivals;
  if (!run.body.empty()) state.bodies[run.function] = run.body.bytes;
  const std::uint32_t worker = run.worker.value_or(0);
  const auto refuse = [&](std::string why) {
    answer_status(state, effects, run.task, TaskStatus::worker_died, worker, std::move(why));
  };
  if (!resolve_blobs(state, task.run.arguments))
    return refuse("the node could not store a large argument; its agent's log says why");
  if (run.group) {
    const auto calls = wire::group_arguments(run.arguments);
    if (!calls) return refuse(calls.error().message);
    if (calls->empty() || calls->size() != run.stream_window)
      return refuse("the group counts its calls wrongly");
  }
  const auto body = state.bodies.find(run.function);
  if (body == state.bodies.end())
    return refuse(
        "the node does not have the function's body: either it could not store it (see its agent's "
        "log), or this is a bug in Skyward");
  task.body = body->second;
  if (state.phase == AgentPhase::failed) return refuse("the node has failed");
  if (state.phase != AgentPhase::greeting && worker >= state.pinned.size())
    return refuse(fmt::format("the call asks for worker {}, but the node has {}", worker,
                              state.pinned.size()));
  if (state.phase == AgentPhase::greeting) return refuse("the node is not configured yet");
  enqueue(state, run.task);
  dispatch(state, effects, now);
}

void on_recall(AgentState& state, AgentEffects& effects, std::uint32_t count) {
  wire::Recalled recalled;
  while (recalled.tasks.size() < count && !state.queue.empty()) {
    const TaskId id = state.queue.back();
    state.queue.pop_back();
    state.tasks.erase(id);
    recalled.tasks.push_back(id);
  }
  effects.send(std::move(recalled));
}

void on_drop_functions(AgentState& state, AgentEffects& effects, const wire::DropFunctions& drop) {
  for (const FunctionId function : drop.functions) {
    state.bodies.erase(function);
    state.run_times.erase(function);
    for (Slot& slot : state.slots) {
      // A task that the engine gave up may be here still; its process keeps what it has.
      const auto calls = [&](TaskId id) { return state.tasks.at(id).run.function == function; };
      if (std::ranges::any_of(slot.window, calls) || slot.functions.erase(function) == 0) continue;
      if (slot.phase == SlotPhase::ready && slot.killed.empty())
        effects.drop_function(slot.id, function);
    }
  }
}

void on_credit(AgentState& state, AgentEffects& effects, const wire::StreamCredit& credit) {
  const auto found = state.tasks.find(credit.task);
  if (found == state.tasks.end() || !found->second.slot) return;  // it ended meanwhile
  found->second.items_left += credit.count;
  effects.credit(*found->second.slot, credit.task, credit.count);
}

void finish(AgentState& state, AgentEffects& effects, int code, std::string reason) {
  if (state.phase == AgentPhase::ended) return;
  state.phase = AgentPhase::ended;
  state.end_reason = std::move(reason);
  effects.exit(code);
}

// Ends this machine, too, where there is a command for that: neither a driver that goes away nor a
// cloud that does not answer it leaves one running.
void finish_with_machine(AgentState& state, AgentEffects& effects, std::string reason) {
  if (!state.configure.end_command.empty()) effects.end_machine(state.configure.end_command);
  finish(state, effects, 0, std::move(reason));
}

bool all_ended(const AgentState& state) { return state.absent.size() == state.slots.size(); }

// There is none while the devices are looked for, before the bootstrap or after it.
void kill_bootstrap_if_any(const AgentState& state, AgentEffects& effects) {
  if (state.phase == AgentPhase::bootstrapping && !state.bootstrapped) effects.kill_bootstrap();
}

void on_shutdown(AgentState& state, AgentEffects& effects, const wire::Shutdown& shutdown,
                 Time now) {
  if (state.phase == AgentPhase::stopping || state.phase == AgentPhase::ended) return;
  kill_bootstrap_if_any(state, effects);
  state.phase = AgentPhase::stopping;
  state.bootstrap_deadline = kNever;
  state.shutdown_deadline = now + std::chrono::milliseconds(shutdown.grace_ms);
  for (Slot& slot : state.slots) {
    if (slot.phase == SlotPhase::absent || !slot.killed.empty()) continue;
    slot.kill_at = kNever;
    slot.start_deadline = kNever;
    reindex(state, slot);
    if (slot.phase != SlotPhase::ready) {  // it has nothing to save
      kill_slot(state, slot, effects, "the pool was closed");
      continue;
    }
    for (const TaskId id : slot.window) effects.interrupt(slot.id, id);
    effects.stop_worker(slot.id);
  }
  if (all_ended(state)) finish_with_machine(state, effects, kClosed);
}

// Ends everything on this machine, and the machine where there is a command for that.
void end_all(AgentState& state, AgentEffects& effects, std::string reason) {
  kill_bootstrap_if_any(state, effects);
  for (Slot& slot : state.slots)
    if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, reason);
  finish_with_machine(state, effects, std::move(reason));
}

// The dead man's switch. True when it has ended the agent.
bool check_lease(AgentState& state, AgentEffects& effects, Time now) {
  if (now >= state.lifetime_ends) {
    end_all(state, effects,
            fmt::format("the pool's lifetime of {:g} s has expired",
                        static_cast<double>(state.configure.lifetime_ms) / 1000.0));
    return true;
  }
  if (now >= state.lease_ends) {
    end_all(state, effects,
            fmt::format("no message from the driver for {:g} s",
                        static_cast<double>(state.configure.lease_ms) / 1000.0));
    return true;
  }
  if (now >= state.warn_at) {
    state.warn_at = kNever;
    wire::OutputLine line;
    line.stream = wire::OutputStream::err;
    line.text =
        fmt::format("skyward: the pool's lifetime expires in {:g} s; this node shuts down then",
                    seconds(state.lifetime_ends - now));
    effects.send(wire::Output{{std::move(line)}});
  }
  return false;
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
    const Duration took{static_cast<Duration::rep>(std::min(message.run_ns, kMaxRunNs))};
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

// The process is gone: the task that it had begun is answered, the others go back to the queue.
void release_window(AgentState& state, AgentEffects& effects, Slot& slot, const WorkerExit& end,
                    Time now) {
  bool begun = std::ranges::find(slot.window, end.begun) != slot.window.end();
  bool front = true;
  const std::string& how = slot.killed.empty() ? end.text : slot.killed;
  while (!slot.window.empty()) {
    const TaskId id = slot.window.front();
    AgentTask& task = state.tasks.at(id);
    slot.window.pop_front();
    task.slot.reset();
    if (task.ending) {
      answer_status(state, effects, id, *task.ending, slot.worker, ending_detail(task));
    } else if (begun || task.delivered) {
      answer_status(state, effects, id, TaskStatus::worker_died, slot.worker,
                    death_detail(end, slot.killed));
    } else if (front && ++task.unread > kMaxUnreadTries) {
      answer_status(state, effects, id, TaskStatus::worker_died, slot.worker,
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

// Asks for what waits behind a slow front. Once for each stay in the window: a second note about a
// task that has come back meanwhile would meet it in the process when it is sent there again.
void withdraw_behind(AgentState& state, AgentEffects& effects, const Slot& slot) {
  std::vector<TaskId> behind;
  for (auto id = slot.window.begin() + 1; id != slot.window.end(); ++id)
    if (!std::exchange(state.tasks.at(*id).withdrawn, true)) behind.push_back(*id);
  if (!behind.empty()) effects.withdraw(slot.id, behind);
}

// The running call of the slot takes long. Those behind it may run elsewhere.
void end_patience(AgentState& state, AgentEffects& effects, Slot& slot, Time now) {
  const TaskId front = slot.window.front();
  if (is_group(state.tasks.at(front).run)) {
    slot.moved_at = now;
    slot.took_rest = effects.take_rest(slot.id, front).has_value();
    // The process has not begun it, and may be at something that has been answered.
    if (!slot.took_rest && now < slot.front_since + kWindowPatience) return reindex(state, slot);
  }
  slot.withdrew = true;
  reindex(state, slot);
  withdraw_behind(state, effects, slot);
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
      answer_status(state, effects, id, TaskStatus::worker_died, broken.worker, reason);
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
  const bool is_barren = !state.has_begun && heavy == 0 && all_ended(state) &&
                         ++state.barren_rounds >= kMaxBarrenRounds;
  if (state.phase != AgentPhase::starting && !is_barren) {
    std::string why = early_death_detail(slot.start_failures, how);
    if (heavy > 0)
      why += fmt::format("; the function, with what it refers to, takes {}", size_text(heavy));
    return fail_waiting(state, effects, slot, why);
  }
  wire::Failed failed;
  failed.step = "server";
  failed.command = fmt::format("{}", fmt::join(state.configure.worker_command, " "));
  failed.reason = how;
  if (is_barren)
    failed.reason = fmt::format("no worker process has begun a task; the last one: {}", how);
  failed.lines.assign(slot.tail.begin(), slot.tail.end());
  fail_node(state, effects, std::move(failed));
}

}  // namespace

void on_message(AgentState& state, AgentEffects& effects, const wire::Message& message, Time now) {
  if (const auto* run = std::get_if<wire::RunTask>(&message)) {
    on_run_task(state, effects, *run, now);
  } else if (const auto* credit = std::get_if<wire::StreamCredit>(&message)) {
    on_credit(state, effects, *credit);
  } else if (const auto* drop = std::get_if<wire::DropBlobs>(&message)) {
    for (const BlobId id : drop->blobs) state.blobs.erase(id);
  } else if (const auto* unused = std::get_if<wire::DropFunctions>(&message)) {
    on_drop_functions(state, effects, *unused);
  } else if (const auto* cancel = std::get_if<wire::CancelTask>(&message)) {
    if (state.phase == AgentPhase::stopping || !state.tasks.contains(cancel->task)) return;
    end_early(state, effects, cancel->task, TaskStatus::cancelled, now);
    dispatch(state, effects, now);
  } else if (const auto* recall = std::get_if<wire::RecallTasks>(&message)) {
    on_recall(state, effects, recall->count);
  } else if (const auto* configure = std::get_if<wire::Configure>(&message)) {
    on_configure(state, effects, *configure, now);
  } else if (const auto* shutdown = std::get_if<wire::Shutdown>(&message)) {
    on_shutdown(state, effects, *shutdown, now);
  }
}

void on_heard(AgentState& state, Time now) {
  if (state.lease_ends != kNever) {
    state.lease_ends = now + std::chrono::milliseconds(state.configure.lease_ms);
  }
}

void on_disconnected(AgentState& state, AgentEffects& effects) {
  if (state.phase == AgentPhase::ended) return;
  kill_bootstrap_if_any(state, effects);
  for (Slot& slot : state.slots)
    if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, "the driver is gone");
  finish(state, effects, 0, "the driver is gone");
}

void on_preempted(AgentState& state, AgentEffects& effects, Time gone_at, std::string reason,
                  Time now) {
  if (state.gone_at != kNever || state.phase == AgentPhase::stopping ||
      state.phase == AgentPhase::failed || state.phase == AgentPhase::ended)
    return;
  state.gone_at = std::max(gone_at, now);
  effects.send(wire::Preempted{.left_ms = static_cast<std::uint64_t>((state.gone_at - now) / 1ms),
                               .reason = std::move(reason)});
  for (const Slot& slot : state.slots)
    if (slot.phase == SlotPhase::ready) effects.warn(slot.id, state.gone_at - now);
}

void on_bootstrap_step(AgentState& state, AgentEffects& effects, const std::string& line,
                       Time now) {
  if (state.phase != AgentPhase::bootstrapping || line.empty()) return;
  constexpr std::string_view kBegin = "begin ";
  constexpr std::string_view kWorker = "worker ";
  if (line.starts_with(kWorker)) return set_variable(state, line.substr(kWorker.size()));
  if (line.starts_with(kBegin)) {
    state.step = line.substr(kBegin.size());
    return;
  }
  state.step = step_after(line);
  effects.send(wire::BootstrapStep{.step = line, .elapsed_ms = elapsed_ms(state, now)});
}

void on_bootstrap_end(AgentState& state, AgentEffects& effects, const BootstrapEnd& end, Time now) {
  if (state.phase != AgentPhase::bootstrapping || state.bootstrapped) return;
  state.bootstrap_deadline = kNever;
  if (end.ok) {
    state.bootstrapped = true;
    return start_workers(state, effects, now);
  }
  const std::string reason = state.bootstrap_timed_out
                                 ? fmt::format("timed out after {:g} s", seconds(kBootstrapTimeout))
                                 : end.reason;
  fail_node(state, effects,
            {.step = state.step, .command = end.command, .reason = reason, .lines = end.lines});
}

void on_accelerators(AgentState& state, AgentEffects& effects, std::vector<std::string> names,
                     Time now) {
  state.accelerators = std::move(names);
  start_workers(state, effects, now);
}

wire::KeyValues worker_environment(const AgentState& state, std::uint32_t worker) {
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : state.configure.workers[worker].environment)
    values[name] = value;
  if (const auto place = values.find("COMPUTE_POOL"); place != values.end() && state.accelerators)
    place->second = with_accelerators(std::move(place->second), *state.accelerators);
  for (const auto& [name, value] : state.told_environment[worker]) values[name] = value;
  return {values.begin(), values.end()};
}

void on_worker_hello(AgentState& state, AgentEffects& effects, SlotId id, Time now) {
  Slot& slot = state.slots[id.value];
  if (slot.phase != SlotPhase::starting || !slot.killed.empty()) return;
  slot.phase = SlotPhase::ready;
  slot.start_deadline = kNever;
  reindex(state, slot);
  start_queued(state, effects, now);
  if (state.gone_at != kNever) effects.warn(id, std::max(state.gone_at - now, Duration{}));
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
    if (state.phase == AgentPhase::stopping && all_ended(state)) {
      finish_with_machine(state, effects, kClosed);
    }
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

void on_timer(AgentState& state, AgentEffects& effects, Time now) {
  if (state.phase == AgentPhase::ended || check_lease(state, effects, now)) return;
  if (state.phase == AgentPhase::stopping) {
    if (now < state.shutdown_deadline) return;
    state.shutdown_deadline = kNever;
    for (Slot& slot : state.slots)
      if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, "the pool was closed");
    return;
  }
  if (now >= state.bootstrap_deadline) {
    state.bootstrap_deadline = kNever;
    state.bootstrap_timed_out = true;
    effects.kill_bootstrap();
  }
  std::vector<SlotId> due;
  for (const auto& [time, id] : state.deadlines) {
    if (time > now) break;
    due.push_back(id);
  }
  std::ranges::sort(due);
  for (const SlotId id : due) {
    Slot& slot = state.slots[id.value];
    if (now >= slot.start_at) end_pause(state, slot);
    if (now >= slot.start_deadline)
      kill_slot(state, slot, effects,
                fmt::format("it sent no greeting within {:g} s", seconds(kWorkerStartTimeout)));
    if (now >= slot.kill_at)
      kill_slot(state, slot, effects, "the task did not end when interrupted");
    if (now >= front_deadline(state, slot))
      end_early(state, effects, slot.window.front(), TaskStatus::timed_out, now);
    if (now >= patience_end(state, slot)) end_patience(state, effects, slot, now);
  }
  start_queued(state, effects, now);
}

Time next_deadline(const AgentState& state) {
  if (state.phase == AgentPhase::ended) return kNever;
  const Time switch_off = std::min({state.lease_ends, state.lifetime_ends, state.warn_at});
  if (state.phase == AgentPhase::stopping) return std::min(state.shutdown_deadline, switch_off);
  const Time slots = state.deadlines.empty() ? kNever : state.deadlines.begin()->first;
  return std::min({state.bootstrap_deadline, switch_off, next_start(state), slots});
}

void sanity_check(const AgentState& state) {
  std::size_t placed = 0;
  const auto check_queue = [&](const std::deque<TaskId>& queue,
                               std::optional<std::uint32_t> worker) {
    std::uint64_t last = 0;
    for (const TaskId id : queue) {
      const auto found = state.tasks.find(id);
      SKYWARD_CHECK(found != state.tasks.end(), "queued task {} is unknown", id.value);
      SKYWARD_CHECK(!found->second.slot, "task {} is queued and in a window", id.value);
      SKYWARD_CHECK(found->second.run.worker == worker, "task {} in a wrong queue", id.value);
      SKYWARD_CHECK(found->second.arrival > last, "task {} out of order", id.value);
      last = found->second.arrival;
      ++placed;
    }
  };
  check_queue(state.queue, std::nullopt);
  for (std::uint32_t worker = 0; worker < state.pinned.size(); ++worker)
    check_queue(state.pinned[worker], worker);
  for (const Slot& slot : state.slots) {
    SKYWARD_CHECK(&slot == &state.slots[slot.id.value], "slot {}", slot.id.value);
    SKYWARD_CHECK(slot.window.size() <= kMaxWorkerWindow, "slot {}", slot.id.value);
    SKYWARD_CHECK(slot.start_at == kNever || slot.phase == SlotPhase::queued, "slot {}",
                  slot.id.value);
    SKYWARD_CHECK(slot.window.empty() || slot.phase == SlotPhase::ready,
                  "slot {} has tasks but no process", slot.id.value);
    Duration expected{};
    for (const TaskId id : slot.window) {
      const auto found = state.tasks.find(id);
      SKYWARD_CHECK(found != state.tasks.end() && found->second.slot == slot.id, "task {}",
                    id.value);
      SKYWARD_CHECK(slot.functions.contains(found->second.run.function), "task {}", id.value);
      expected += found->second.expected;
      ++placed;
    }
    SKYWARD_CHECK(expected == slot.expected, "slot {}", slot.id.value);
  }
  check_indexes(state);
  if (state.phase == AgentPhase::failed)
    SKYWARD_CHECK(state.tasks.empty(), "{}", state.tasks.size());
  SKYWARD_CHECK(placed == state.tasks.size(), "{} of {} tasks placed", placed, state.tasks.size());
}

}  // namespace skyward::agent
