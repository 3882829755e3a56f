#include "sim/agent_process.h"

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/spec/topology.h"

namespace skyward::sim {
namespace {

// In large states not every contradiction is looked for after each event.
constexpr std::size_t kSmallAgent = 100;
constexpr std::uint64_t kCheckAgentEvery = 64;

}  // namespace

AgentProcess::AgentProcess(Simulator& simulator, Journal& journal, const NodeParameters& parameters,
                           std::string name, Events events)
    : simulator_(simulator),
      journal_(journal),
      parameters_(parameters),
      name_(std::move(name)),
      events_(std::move(events)) {
  parameters_.is_defective = simulator_.defects.chance(parameters_.defective);
  // Whoever started it has something to say to it.
  simulator_.after(kGreetTimeout, [this] {
    if (state_.phase == agent::AgentPhase::greeting) come([this] { cut_off(); });
  });
  if (parameters_.loop.stall_mean > Duration{}) stall_later();
}

// ---- the loop

// Something has come. It is looked at now, or when the loop comes to it.
void AgentProcess::come(Simulator::Event step) {
  if (!runs()) return;
  unread_.push_back(std::move(step));
  if (simulator_.now() >= busy_until_ && !looking_) look(false);
}

// Runs `step` on the core if the agent still runs, then sees to the timer.
void AgentProcess::turn(Simulator::Event step) {
  if (!runs()) return;
  turn_.take(step);
  if (!runs()) return;
  if (state_.tasks.size() + state_.slots.size() < kSmallAgent || ++turns_ % kCheckAgentEvery == 0) {
    agent::sanity_check(state_);
  }
  arm_timer();
}

// Looks at what has come: at the timers before it or after it, at all of it or only at a part.
void AgentProcess::look(bool was_held_up) {
  if (std::exchange(link_due_, false)) turn([this] { events_.on_link_timer(); });
  if (was_held_up && simulator_.crowds.chance(0.5)) ring();
  std::size_t left = unread_.size();
  if (was_held_up && left > 1 && simulator_.crowds.chance(0.7))
    left = 1 + simulator_.crowds.below(left);
  looking_ = true;
  for (; left > 0 && runs() && !unread_.empty(); --left) {
    Simulator::Event step = std::move(unread_.front());
    unread_.pop_front();
    turn(std::move(step));
  }
  looking_ = false;
  if (!runs()) return;
  if (!unread_.empty() ||
      (was_held_up && parameters_.loop.stall_max > Duration{} && simulator_.crowds.chance(0.3))) {
    hold_up(simulator_.crowds.between(Duration{}, parameters_.loop.stall_max));
  }
  if (was_held_up) ring();
}

// Does what is due, unless the loop is at something else.
void AgentProcess::ring() {
  if (simulator_.now() < busy_until_ || agent::next_deadline(state_) > simulator_.now()) return;
  turn([this] { agent::on_timer(state_, *this, simulator_.now()); });
}

// From now on, or for longer than it was.
void AgentProcess::hold_up(Duration time) {
  busy_until_ = std::max(busy_until_, simulator_.now()) + time;
  if (std::exchange(waking_, true)) return;
  wake_at(busy_until_);
}

void AgentProcess::wake_at(Time time) {
  simulator_.at(time, [this] {
    if (!runs()) return;
    if (simulator_.now() < busy_until_) return wake_at(busy_until_);
    waking_ = false;
    look(true);
  });
}

void AgentProcess::stall_later() {
  simulator_.after(simulator_.crowds.about(parameters_.loop.stall_mean), [this] {
    if (!runs()) return;
    hold_up(simulator_.crowds.between(Duration{}, parameters_.loop.stall_max));
    simulator_.at(busy_until_, [this] { stall_later(); });
  });
}

void AgentProcess::arm_timer() {
  const Time next = agent::next_deadline(state_);
  if (next == timer_.first) return;
  simulator_.cancel(timer_);
  if (next == kNever) return;
  timer_ = simulator_.at(next, [this] {
    timer_ = Simulator::kNoTimer;
    ring();
  });
}

// ---- what comes

void AgentProcess::ring_link() {
  if (!runs()) return;
  link_due_ = true;
  if (simulator_.now() >= busy_until_ && !looking_) look(false);
}

void AgentProcess::receive(const wire::Message& message) {
  const auto* configure = std::get_if<wire::Configure>(&message);
  if (configure != nullptr && !configure->peer_key.empty()) state_.peer_port = 1;
  agent::on_message(state_, *this, message, simulator_.now());
  if (configure == nullptr) return;
  events_.start_heartbeats(std::chrono::milliseconds(configure->heartbeat_ms));
  if (configure->metrics_ms > 0) {
    sample_metrics(std::chrono::milliseconds(configure->metrics_ms));
  }
  simulator_.after(simulator_.random.between(Duration{}, Duration{300ms}), [this] {
    come([this] { agent::on_accelerators(state_, *this, {}, simulator_.now()); });
  });
}

void AgentProcess::sample_metrics(Duration interval) {
  simulator_.after(interval, [this, interval] {
    if (!runs()) return;
    if (simulator_.now() >= busy_until_) events_.send(wire::MetricsSample{});
    sample_metrics(interval);
  });
}

void AgentProcess::heard() { agent::on_heard(state_, simulator_.now()); }

// As the kernel does it: the agent's children die with it.
void AgentProcess::end() {
  state_.phase = agent::AgentPhase::ended;
  ended_at_ = simulator_.now();
  simulator_.cancel(timer_);
  unread_.clear();
  for (auto& process : all_processes_) process->vanish();
}

void AgentProcess::kill() {
  if (runs()) end();
}

void AgentProcess::cut_off() {
  if (runs()) agent::on_disconnected(state_, *this, "the driver is gone");
}

void AgentProcess::announce_end(Duration left) {
  come([this, gone_at = simulator_.now() + left] {
    if (state_.phase == agent::AgentPhase::greeting) return;  // nobody listens yet
    agent::on_preempted(state_, *this, gone_at, "spot capacity", simulator_.now());
  });
}

std::size_t AgentProcess::processes() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(all_processes_, [](const auto& process) { return process->alive(); }));
}

void AgentProcess::send(wire::Message message) { events_.send(std::move(message)); }

void AgentProcess::start_bootstrap(const wire::Configure&) {
  if (simulator_.random.chance(parameters_.bootstrap_hang)) return;
  Duration took{};
  for (const char* step : {"uv", "deps", "skyward"}) {
    took += simulator_.random.between(10ms, 10s);
    simulator_.after(took, [this, step] {
      come([this, step] { agent::on_bootstrap_step(state_, *this, step, simulator_.now()); });
    });
  }
  agent::BootstrapEnd end;
  end.ok = !simulator_.random.chance(parameters_.bootstrap_fail);
  if (!end.ok) end.reason = "exit code 1";
  bootstrap_ = simulator_.after(took, [this, end = std::move(end)] {
    come([this, end] { agent::on_bootstrap_end(state_, *this, end, simulator_.now()); });
  });
}

void AgentProcess::kill_bootstrap() {
  simulator_.cancel(bootstrap_);
  simulator_.after(1ms, [this] {
    agent::BootstrapEnd end;
    end.reason = "killed by signal 9 (SIGKILL)";
    come([this, end] { agent::on_bootstrap_end(state_, *this, end, simulator_.now()); });
  });
}

void AgentProcess::start_worker(SlotId slot) {
  SKYWARD_CHECK(events_.may_work(), "two agents work on the machine of {}", name_);
  SKYWARD_CHECK(!processes_.contains(slot) || !processes_.at(slot)->alive(), "slot {} of {} twice",
                slot.value, name_);
  SimulatedWorker::Events events;
  events.on_hello = [this, slot] {
    come([this, slot] { agent::on_worker_hello(state_, *this, slot, simulator_.now()); });
  };
  events.on_message = [this, slot](wire::WorkerMessage message) {
    come([this, slot, message = std::move(message)]() mutable {
      agent::on_worker_message(state_, *this, slot, std::move(message), simulator_.now());
    });
  };
  events.on_output = [this, slot](std::vector<wire::OutputLine> lines) {
    come([this, slot, lines = std::move(lines)]() mutable {
      agent::on_output(state_, *this, slot, std::move(lines));
    });
  };
  int& starts = starts_without_task_[slot];
  starts = state_.tasks.empty() ? starts + 1 : 0;
  SKYWARD_CHECK(starts <= static_cast<int>(kMaxWorkerStartFailures),
                "slot {} of {} starts again and again", slot.value, name_);
  events.on_exit = [this, slot](const agent::WorkerExit& end) {
    if (end.begun != TaskId{}) starts_without_task_[slot] = 0;
    come([this, slot, end] { agent::on_worker_exit(state_, *this, slot, end, simulator_.now()); });
  };
  if (parameters_.loop.start_cost > Duration{}) hold_up(parameters_.loop.start_cost);
  const std::uint32_t worker = state_.slots[slot.value].worker;
  std::string instance_info;
  for (const auto& [name, value] : agent::worker_environment(state_, worker)) {
    if (name == kInstanceInfoVariable) instance_info = value;
  }
  all_processes_.push_back(
      std::make_unique<SimulatedWorker>(simulator_, journal_, parameters_, name_, worker,
                                        std::move(instance_info), std::move(events)));
  processes_[slot] = all_processes_.back().get();
}

void AgentProcess::run(SlotId slot, const agent::WorkerRun& run) {
  SKYWARD_CHECK(!run.task.worker || *run.task.worker == state_.slots[slot.value].worker);
  process(slot).run(run);
}

void AgentProcess::interrupt(SlotId slot, TaskId task) { process(slot).interrupt(task); }

void AgentProcess::withdraw(SlotId slot, std::span<const TaskId> tasks) {
  process(slot).withdraw(tasks);
}

void AgentProcess::warn(SlotId slot, Duration left) {
  SKYWARD_CHECK(left >= Duration{}, "slot {} of {}", slot.value, name_);
}

std::optional<std::uint32_t> AgentProcess::take_rest(SlotId slot, TaskId group) {
  return process(slot).take_rest(group);
}

void AgentProcess::credit(SlotId slot, TaskId task, std::uint32_t count) {
  process(slot).credit(task, count);
}

void AgentProcess::drop_function(SlotId slot, FunctionId function) { process(slot).drop(function); }

void AgentProcess::tell_instance_info(SlotId slot, const std::string& compute_pool) {
  process(slot).tell_instance_info(compute_pool);
}

void AgentProcess::stop_worker(SlotId slot) { process(slot).stop(); }

void AgentProcess::kill_worker(SlotId slot) { process(slot).kill(); }

void AgentProcess::end_machine(std::vector<std::string>) { events_.on_end_machine(); }

void AgentProcess::exit(int) {
  end();
  exited_ = true;
  events_.on_exit(state_.end_reason);
}

}  // namespace skyward::sim
