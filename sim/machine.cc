#include "sim/machine.h"

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"

namespace skyward::sim {

Machine::Machine(World& world, Journal& journal, const NodeDials& dials, std::string name,
                 Link::Door door)
    : world_(world), journal_(journal), dials_(dials), name_(std::move(name)), door_(door) {}

template <typename Step>
void Machine::turn(Step step) {
  if (!agent_runs()) return;
  step();
  if (!agent_runs()) return;
  agent::sanity_check(state_);
  arm_timer();
}

// Not part of turn(): a lambda inside a template that calls the template again is a new type each
// time, without end.
void Machine::arm_timer() {
  const Time next = agent::next_deadline(state_);
  if (next == timer_.first) return;
  world_.cancel(timer_);
  if (next == kNever) return;
  timer_ = world_.at(next, [this] {
    timer_ = World::kNoTimer;
    turn([this] { agent::on_timer(state_, *this, world_.now()); });
  });
}

void Machine::receive(const wire::Message& message) {
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

void Machine::tick(Duration interval, wire::Message message) {
  world_.after(interval, [this, interval, message = std::move(message)]() mutable {
    if (!agent_runs()) return;
    link_->agent_sends(message);
    tick(interval, std::move(message));
  });
}

void Machine::heard() {
  turn([this] { agent::on_heard(state_, world_.now()); });
}

void Machine::kill_agent() {
  if (!agent_runs()) return;
  state_.phase = agent::Phase::ended;
  world_.cancel(timer_);
  for (auto& process : all_processes_) process->vanish();
  if (link_ != nullptr) link_->agent_killed();
}

void Machine::cut_off() {
  turn([this] { agent::on_disconnected(state_, *this); });
}

void Machine::announce_end(Duration left) {
  turn([&] {
    if (state_.phase == agent::Phase::greeting) return;  // nobody listens yet
    agent::on_preempted(state_, *this, world_.now() + left, "taken back", world_.now());
  });
}

void Machine::power_off() {
  if (!std::exchange(on_, false)) return;
  world_.cancel(timer_);
  for (auto& process : all_processes_) process->vanish();
  if (link_ != nullptr) link_->machine_died();
}

std::size_t Machine::processes() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(all_processes_, [](const auto& process) { return process->alive(); }));
}

void Machine::send(wire::Message message) { link_->agent_sends(std::move(message)); }

void Machine::start_bootstrap(const wire::Configure&) {
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

void Machine::kill_bootstrap() {
  world_.cancel(bootstrap_);
  world_.after(1ms, [this] {
    agent::BootstrapEnd end;
    end.reason = "killed by signal 9 (SIGKILL)";
    turn([&] { agent::on_bootstrap_end(state_, *this, end, world_.now()); });
  });
}

void Machine::start_worker(SlotId slot) {
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

void Machine::run(SlotId slot, const agent::WorkerRun& run) {
  SKYWARD_CHECK(!run.task.worker || *run.task.worker == state_.slots[slot.value].worker);
  process(slot).run(run);
}

void Machine::interrupt(SlotId slot, TaskId task) { process(slot).interrupt(task); }

void Machine::withdraw(SlotId slot, std::span<const TaskId> tasks) {
  process(slot).withdraw(tasks);
}

void Machine::warn(SlotId slot, Duration left) {
  SKYWARD_CHECK(process(slot).alive() && left >= Duration{}, "slot {} of {}", slot.value, name_);
}

void Machine::credit(SlotId slot, TaskId task, std::uint32_t count) {
  process(slot).credit(task, count);
}

void Machine::drop_function(SlotId slot, FunctionId function) { process(slot).drop(function); }

void Machine::stop_worker(SlotId slot) { process(slot).stop(); }

void Machine::kill_worker(SlotId slot) { process(slot).kill(); }

void Machine::end_machine(std::vector<std::string>) {}

// As the kernel does it: the agent's children die with it.
void Machine::exit(int) {
  world_.cancel(timer_);
  for (auto& process : all_processes_) process->vanish();
  link_->agent_ended();
}

}  // namespace skyward::sim
