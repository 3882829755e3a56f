#include "sim/worker_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/call/instance_info.h"

namespace skyward::sim {
namespace {

constexpr Duration kPipeMin = 2us;
constexpr Duration kPipeMax = 200us;
// From the greeting to the end of a process that starts badly: tasks may come meanwhile, and begin.
constexpr Duration kSoon = 1ms;

}  // namespace

void Journal::begun(TaskId task, std::uint32_t attempt, const BeginningPlace& place) {
  auto& attempts = begun_[task];
  for (const auto& [other, there] : attempts) {
    SKYWARD_CHECK(!*there.runs || lost_.contains(there.machine),
                  "attempt {} of task {} begins, while {} is on {}", attempt, task.value, other,
                  there.machine);
  }
  SKYWARD_CHECK(attempts.emplace(attempt, place).second, "attempt {} of task {} begins twice",
                attempt, task.value);
}

std::size_t Journal::size() const {
  std::size_t attempts = 0;
  for (const auto& [task, begun] : begun_) attempts += begun.size();
  return attempts;
}

void Journal::begun_together(TaskId task, std::uint32_t attempt,
                             const std::string& instance_info) const {
  SKYWARD_CHECK(attempt == 1, "task {} begins again without the others", task.value);
  const auto info = parse_instance_info(instance_info);
  SKYWARD_CHECK(info);
  for (const auto& [node, first] : sent_together_.at(task)) {
    const std::vector<std::string>& addresses = addresses_.at(node);
    const std::string& known = info->peers.at(node.value).private_ip;
    const auto since = addresses.begin() + static_cast<std::ptrdiff_t>(first);
    SKYWARD_CHECK(std::find(since, addresses.end(), known) != addresses.end(),
                  "task {} looks for node {} at {}, not {}", task.value, node.value, known, *since);
    SKYWARD_CHECK(node.value != 0 || info->head_addr == known);
  }
}

SimulatedWorker::SimulatedWorker(Simulator& simulator, Journal& journal,
                                 const NodeParameters& parameters, std::string machine,
                                 std::uint32_t worker, std::string instance_info, Events events)
    : simulator_(simulator),
      journal_(journal),
      parameters_(parameters),
      machine_(std::move(machine)),
      worker_(worker),
      instance_info_(std::move(instance_info)),
      events_(std::move(events)) {
  if (simulator_.random.chance(parameters_.start_hang)) return;
  simulator_.after(simulator_.random.between(parameters_.start_min, parameters_.start_max), [this] {
    if (!*alive_) return;
    const bool is_defective = parameters_.is_defective;
    const bool fails = simulator_.random.chance(parameters_.start_fail) || is_defective;
    const bool greets = !fails || is_defective || simulator_.starts.chance(0.5);
    if (greets) tell([this] { events_.on_hello(); });
    if (!fails) return;
    simulator_.after(greets ? simulator_.starts.between({}, kSoon) : Duration{}, [this] {
      if (!*alive_) return;
      tell([this] { events_.on_output({{.task = {}, .worker = worker_, .text = "no module"}}); });
      die({.text = "exit code 1", .code = 1});
    });
  });
}

void SimulatedWorker::deliver(Simulator::Event event) {
  last_in_ = std::max(last_in_, simulator_.now() + simulator_.random.between(kPipeMin, kPipeMax));
  simulator_.at(last_in_, [this, event = std::move(event)]() mutable {
    if (*alive_) event();
  });
}

void SimulatedWorker::deliver_now(Simulator::Event event) {
  simulator_.after(simulator_.random.between(kPipeMin, kPipeMax),
                   [this, event = std::move(event)]() mutable {
                     if (*alive_) event();
                   });
}

void SimulatedWorker::tell(Simulator::Event event) {
  last_out_ = std::max(last_out_, simulator_.now() + simulator_.random.between(kPipeMin, kPipeMax));
  simulator_.at(last_out_, [this, event = std::move(event)]() mutable {
    if (events_.on_exit) event();
  });
}

void SimulatedWorker::run(const agent::WorkerRun& run) {
  deliver([this, task = run.task, has_body = !run.body.empty()] {
    if (has_body) functions_.insert(task.function);
    SKYWARD_CHECK(functions_.contains(task.function), "no body for task {}", task.task.value);
    waiting_.push_back(
        {.task = task,
         .plan = task.group ? plan_of_group(task.arguments) : plan_of(task.arguments)});
    if (!current_) begin_next();
  });
}

void SimulatedWorker::interrupt(TaskId task) {
  deliver_now([this, task] { interrupted(task); });
}

void SimulatedWorker::withdraw(std::span<const TaskId> tasks) {
  deliver_now([this, tasks = std::vector<TaskId>(tasks.begin(), tasks.end())] {
    for (const TaskId task : tasks) {
      if (!current_ || current_->task.task != task) answer_cancelled(task);
    }
  });
}

// At once if it waits here, else when it comes.
void SimulatedWorker::answer_cancelled(TaskId task) {
  const auto found =
      std::ranges::find(waiting_, task, [](const Run& run) { return run.task.task; });
  if (found == waiting_.end()) {
    skipped_.insert(task);
    return;
  }
  waiting_.erase(found);
  tell([this, task] {
    wire::WorkerMessage message;
    message.kind = wire::WorkerKind::result;
    message.status = wire::WorkerStatus::cancelled;
    message.task = task;
    events_.on_message(std::move(message));
  });
}

void SimulatedWorker::interrupted(TaskId task) {
  if (!current_ || current_->task.task != task) return answer_cancelled(task);
  if (current_->plan.kind == TaskKind::stubborn || std::exchange(current_->told_to_end, true))
    return;
  if (simulator_.random.chance(0.2)) return;  // it was about to end anyway, or takes its time
  simulator_.after(simulator_.random.between(Duration{}, Duration{5ms}), [this, task] {
    if (!*alive_ || !current_ || current_->task.task != task) return;
    finish(wire::WorkerStatus::cancelled, 0);
  });
}

void SimulatedWorker::credit(TaskId task, std::uint32_t count) {
  deliver([this, task, count] {
    if (!current_ || current_->task.task != task) return;
    const bool stuck = current_->sent >= current_->task.stream_window + current_->credits;
    current_->credits += count;
    if (stuck && step_ == Simulator::kNoTimer) next_item();
  });
}

void SimulatedWorker::drop(FunctionId function) {
  deliver([this, function] {
    SKYWARD_CHECK(functions_.erase(function) == 1, "a function that is not here is dropped");
    for (const Run& run : waiting_) {
      SKYWARD_CHECK(run.task.function != function, "task {} has no function", run.task.task.value);
    }
  });
}

void SimulatedWorker::tell_instance_info(std::string instance_info) {
  deliver([this, instance_info = std::move(instance_info)]() mutable {
    instance_info_ = std::move(instance_info);
  });
}

void SimulatedWorker::stop() {
  deliver([this] {
    stopping_ = true;
    if (!current_) begin_next();
  });
}

void SimulatedWorker::kill() {
  if (!*alive_) return;
  die({.text = "killed by signal 9 (SIGKILL)", .by_signal = true, .by_sigkill = true});
}

void SimulatedWorker::vanish() {
  simulator_.cancel(step_);
  end_current();
  *alive_ = false;
  events_.on_exit = nullptr;
}

void SimulatedWorker::begin_next() {
  if (parameters_.is_defective) return;
  while (!waiting_.empty()) {
    if (skipped_.erase(waiting_.front().task.task) == 0) break;
    const TaskId task = waiting_.front().task.task;
    answer_cancelled(task);
  }
  if (waiting_.empty()) {
    if (stopping_) die({.text = "exit code 0"});
    return;
  }
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  current_->began = simulator_.now();
  begun_ = current_->task.task;
  journal_.begun(current_->task.task, current_->task.attempt,
                 {.machine = machine_, .runs = alive_});
  if (current_->plan.together != 0) {
    journal_.begun_together(current_->task.task, current_->task.attempt, instance_info_);
  }
  for (const wire::Buffer& buffer : current_->task.arguments.buffers) {
    if (buffer.in_blob()) ++simulator_.segment(buffer.blob.descriptor).mapped;
  }
  if (simulator_.random.chance(parameters_.sudden_death)) {
    step_ = simulator_.after(
        simulator_.random.about(Duration{static_cast<Duration::rep>(current_->plan.run_ns / 2)}),
        [this] { die({.text = "exit code 139", .code = 139}); });
    return;
  }
  proceed();
}

void SimulatedWorker::proceed() {
  const TaskPlan& plan = current_->plan;
  const Duration run{static_cast<Duration::rep>(plan.run_ns)};
  switch (plan.kind) {
    case TaskKind::hangs:
    case TaskKind::stubborn:
      return;
    case TaskKind::stream:
      next_item();
      return;
    case TaskKind::group:
      current_->claimed = 1;
      next_call();
      return;
    case TaskKind::dies:
      step_ = simulator_.after(run, [this] {
        print(current_->plan.lines);
        die({.text = "killed by signal 11 (SIGSEGV)", .by_signal = true, .peak_bytes = 1 << 20});
      });
      return;
    case TaskKind::returns:
    case TaskKind::raises:
      step_ = simulator_.after(run / 2, [this, run] {
        print(current_->plan.lines / 2);
        step_ = simulator_.after(run - run / 2, [this] {
          const bool raises = current_->plan.kind == TaskKind::raises;
          finish(raises ? wire::WorkerStatus::raised : wire::WorkerStatus::ok,
                 value_of(current_->plan.key));
        });
      });
      return;
  }
}

void SimulatedWorker::next_item() {
  if (current_->sent == current_->plan.items) {
    return finish(wire::WorkerStatus::ok, value_of(current_->plan.key));
  }
  if (current_->task.stream_window > 0 &&
      current_->sent >= current_->task.stream_window + current_->credits) {
    return;  // the reader is behind
  }
  const Duration pause{static_cast<Duration::rep>(current_->plan.run_ns)};
  step_ = simulator_.after(pause, [this] {
    step_ = Simulator::kNoTimer;
    ++current_->sent;
    tell_item(current_->task.task, payload_of(value_of(current_->plan.key, current_->sent)));
    next_item();
  });
}

// The call that was claimed last.
void SimulatedWorker::next_call() {
  const TaskPlan& plan = current_->plan;
  const std::uint32_t call = plan.first + current_->claimed;
  const bool slow = simulator_.groups.chance(0.05);
  const Duration pause{static_cast<Duration::rep>(plan.run_ns * (slow ? kSlowCallFactor : 1))};
  step_ = simulator_.after(pause, [this, call] {
    step_ = Simulator::kNoTimer;
    const std::uint64_t value = value_of(current_->plan.key, call);
    if (current_->claimed == current_->task.stream_window)
      return finish(wire::WorkerStatus::ok, value);
    ++current_->claimed;
    wire::GroupItemWriter item;
    item.add(payload_of(value).buffers[0].bytes.view);
    tell_item(current_->task.task, item.take());
    next_call();
  });
}

std::optional<std::uint32_t> SimulatedWorker::take_rest(TaskId group) {
  if (!*alive_ || !current_ || current_->task.task != group) return std::nullopt;
  const std::uint32_t left = current_->task.stream_window - current_->claimed;
  if (left == 0) return left;
  current_->task.stream_window = current_->claimed;
  wire::GroupItemWriter item;
  item.withdraw(left);
  tell_item(group, item.take());
  return left;
}

void SimulatedWorker::tell_item(TaskId task, wire::Payload payload) {
  tell([this, task, payload = std::move(payload)]() mutable {
    wire::WorkerMessage message;
    message.kind = wire::WorkerKind::item;
    message.task = task;
    message.payload = std::move(payload);
    events_.on_message(std::move(message));
  });
}

void SimulatedWorker::print(std::uint32_t until) {
  std::vector<wire::OutputLine> lines;
  for (; current_->lines < until; ++current_->lines) {
    lines.push_back({.task = current_->task.task,
                     .worker = worker_,
                     .text = fmt::format("{} {}", current_->task.attempt, current_->lines)});
  }
  if (lines.empty()) return;
  tell([this, lines = std::move(lines)] { events_.on_output(lines); });
}

void SimulatedWorker::finish(wire::WorkerStatus status, std::uint64_t value) {
  simulator_.cancel(step_);
  if (status != wire::WorkerStatus::cancelled) print(current_->plan.lines);
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::result;
  message.status = status;
  message.task = current_->task.task;
  message.run_ns = static_cast<std::uint64_t>((simulator_.now() - current_->began).count());
  if (status != wire::WorkerStatus::cancelled) message.payload = payload_of(value);
  for (const wire::Buffer& buffer : current_->task.arguments.buffers) {
    if (!buffer.in_blob()) continue;
    if (simulator_.random.chance(parameters_.keep_mapped))
      message.retained.push_back(buffer.blob.id);
  }
  end_current();
  tell([this, message = std::move(message)] { events_.on_message(message); });
  if (waiting_.empty() && simulator_.random.chance(parameters_.idle_death)) {
    return die({.text = "killed by signal 9 (SIGKILL)", .by_signal = true, .by_sigkill = true});
  }
  begin_next();
}

// The current task is over. What the process keeps of it, it has reported.
void SimulatedWorker::end_current() {
  if (!current_) return;
  for (const wire::Buffer& buffer : current_->task.arguments.buffers) {
    if (buffer.in_blob()) --simulator_.segment(buffer.blob.descriptor).mapped;
  }
  current_.reset();
}

void SimulatedWorker::die(agent::WorkerExit exit) {
  *alive_ = false;
  end_current();
  simulator_.cancel(step_);
  exit.begun = begun_;
  tell([this, exit = std::move(exit)] { std::exchange(events_.on_exit, nullptr)(exit); });
}

}  // namespace skyward::sim
