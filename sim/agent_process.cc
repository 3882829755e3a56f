#include "sim/agent_process.h"

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"

namespace skyward::sim {

AgentProcess::AgentProcess(World& world, Journal& journal, const NodeDials& dials, std::string name,
                           Events events)
    : world_(world),
      journal_(journal),
      dials_(dials),
      name_(std::move(name)),
      events_(std::move(events)) {
  // Whoever started it has something to say to it.
  world_.after(kGreetTimeout, [this] {
    if (state_.phase == agent::Phase::greeting) cut_off();
  });
}

template <typename Step>
void AgentProcess::turn(Step step) {
  if (!runs()) return;
  step();
  if (!runs()) return;
  agent::sanity_check(state_);
  arm_timer();
}

// Not part of turn(): a lambda inside a template that calls the template again is a new type each
// time, without end.
void AgentProcess::arm_timer() {
  const Time next = agent::next_deadline(state_);
  if (next == timer_.first) return;
  world_.cancel(timer_);
  if (next == kNever) return;
  timer_ = world_.at(next, [this] {
    timer_ = World::kNoTimer;
    turn([this] { agent::on_timer(state_, *this, world_.now()); });
  });
}

void AgentProcess::receive(const wire::Message& message) {
  const auto* configure = std::get_if<wire::Configure>(&message);
  if (configure != nullptr && !configure->peer_key.empty()) state_.peer_port = 1;
  turn([&] { agent::on_message(state_, *this, message, world_.now()); });
  if (configure == nullptr) return;
  tick(std::chrono::milliseconds(configure->heartbeat_ms), wire::Heartbeat{});
  if (configure->metrics_ms > 0) {
    tick(std::chrono::milliseconds(configure->metrics_ms), wire::MetricsSample{});
  }
  world_.after(world_.random.between(Duration{}, Duration{300ms}), [this] {
    turn([this] { agent::on_accelerators(state_, *this, {}, world_.now()); });
  });
}

void AgentProcess::tick(Duration interval, wire::Message message) {
  world_.after(interval, [this, interval, message = std::move(message)]() mutable {
    if (!runs()) return;
    events_.send(message);
    tick(interval, std::move(message));
  });
}

void AgentProcess::heard() {
  turn([this] { agent::on_heard(state_, world_.now()); });
}

// As the kernel does it: the agent's children die with it.
void AgentProcess::end() {
  state_.phase = agent::Phase::ended;
  ended_at_ = world_.now();
  world_.cancel(timer_);
  for (auto& process : all_processes_) process->vanish();
}

void AgentProcess::kill() {
  if (runs()) end();
}

void AgentProcess::cut_off() {
  turn([this] { agent::on_disconnected(state_, *this); });
}

void AgentProcess::announce_end(Duration left) {
  turn([&] {
    if (state_.phase == agent::Phase::greeting) return;  // nobody listens yet
    agent::on_preempted(state_, *this, world_.now() + left, "taken back", world_.now());
  });
}

std::size_t AgentProcess::processes() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(all_processes_, [](const auto& process) { return process->alive(); }));
}

void AgentProcess::send(wire::Message message) { events_.send(std::move(message)); }

void AgentProcess::start_bootstrap(const wire::Configure&) {
  if (world_.random.chance(dials_.bootstrap_hang)) return;
  Duration took{};
  for (const char* step : {"uv", "deps", "skyward"}) {
    took += world_.random.between(10ms, 10s);
    world_.after(took, [this, step] {
      turn([&] { agent::on_bootstrap_step(state_, *this, step, world_.now()); });
    });
  }
  agent::BootstrapEnd end;
  end.ok = !world_.random.chance(dials_.bootstrap_fail);
  if (!end.ok) end.reason = "exit code 1";
  bootstrap_ = world_.after(took, [this, end = std::move(end)] {
    turn([&] { agent::on_bootstrap_end(state_, *this, end, world_.now()); });
  });
}

void AgentProcess::kill_bootstrap() {
  world_.cancel(bootstrap_);
  world_.after(1ms, [this] {
    agent::BootstrapEnd end;
    end.reason = "killed by signal 9 (SIGKILL)";
    turn([&] { agent::on_bootstrap_end(state_, *this, end, world_.now()); });
  });
}

void AgentProcess::start_worker(SlotId slot) {
  SKYWARD_CHECK(events_.may_work(), "two agents work on the machine of {}", name_);
  SKYWARD_CHECK(!processes_.contains(slot) || !processes_.at(slot)->alive(), "slot {} of {} twice",
                slot.value, name_);
  WorkerProcess::Events events;
  events.on_hello = [this, slot] {
    turn([&] { agent::on_worker_hello(state_, *this, slot, world_.now()); });
  };
  events.on_message = [this, slot](wire::WorkerMessage message) {
    turn([&] { agent::on_worker_message(state_, *this, slot, std::move(message), world_.now()); });
  };
  events.on_output = [this, slot](std::vector<wire::OutputLine> lines) {
    turn([&] { agent::on_output(state_, *this, slot, std::move(lines)); });
  };
  events.on_exit = [this, slot](const agent::WorkerExit& end) {
    turn([&] { agent::on_worker_exit(state_, *this, slot, end, world_.now()); });
  };
  const std::uint32_t worker = state_.slots[slot.value].worker;
  all_processes_.push_back(
      std::make_unique<WorkerProcess>(world_, journal_, dials_, worker, std::move(events)));
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
  SKYWARD_CHECK(process(slot).alive() && left >= Duration{}, "slot {} of {}", slot.value, name_);
}

void AgentProcess::credit(SlotId slot, TaskId task, std::uint32_t count) {
  process(slot).credit(task, count);
}

void AgentProcess::drop_function(SlotId slot, FunctionId function) { process(slot).drop(function); }

void AgentProcess::stop_worker(SlotId slot) { process(slot).stop(); }

void AgentProcess::kill_worker(SlotId slot) { process(slot).kill(); }

void AgentProcess::end_machine(std::vector<std::string>) { events_.on_end_machine(); }

void AgentProcess::exit(int) {
  end();
  exited_ = true;
  events_.on_exit();
}

}  // namespace skyward::sim
