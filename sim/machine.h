#pragma once

// An instance of the simulated cloud: a real agent core, its worker processes, and the agent's loop
// redone as thinly as it goes.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/dials.h"
#include "sim/link.h"
#include "sim/worker_process.h"
#include "sim/world.h"
#include "skyward/agent/core.h"
#include "skyward/agent/effects.h"

namespace skyward::sim {

class Machine final : private agent::Effects {
 public:
  Machine(World& world, Journal& journal, const NodeDials& dials, std::string name,
          Link::Door door);

  // Before the first message.
  void attach(Link& link) { link_ = &link; }
  Link::Door door() const { return on_ ? door_ : Link::Door::silent; }

  // From the network.
  void receive(const wire::Message& message);
  void heard();
  void cut_off();

  // The cloud's word that it takes the machine back.
  void announce_end(Duration left);
  // Power off, by us or by the cloud.
  void power_off();
  bool is_on() const { return on_; }
  // The agent's process dies, and its children with it.
  void kill_agent();
  bool agent_runs() const { return on_ && state_.phase != agent::Phase::ended; }
  std::size_t processes() const;

 private:
  void send(wire::Message message) override;
  void start_bootstrap(const wire::Configure& configure) override;
  void kill_bootstrap() override;
  void start_worker(SlotId slot) override;
  void run(SlotId slot, const agent::WorkerRun& run) override;
  void interrupt(SlotId slot, TaskId task) override;
  void withdraw(SlotId slot, std::span<const TaskId> tasks) override;
  void warn(SlotId slot, Duration left) override;
  void credit(SlotId slot, TaskId task, std::uint32_t count) override;
  void drop_function(SlotId slot, FunctionId function) override;
  void stop_worker(SlotId slot) override;
  void kill_worker(SlotId slot) override;
  void end_machine(std::vector<std::string> command) override;
  void exit(int code) override;

  // Runs `step` on the core if the agent still runs, then sees to the timer.
  template <typename Step>
  void turn(Step step);
  void arm_timer();
  void tick(Duration interval, wire::Message message);
  WorkerProcess& process(SlotId slot) { return *processes_.at(slot); }

  World& world_;
  Journal& journal_;
  NodeDials dials_;
  std::string name_;
  Link::Door door_;
  Link* link_ = nullptr;
  bool on_ = true;
  agent::State state_;
  World::Timer timer_ = World::kNoTimer;
  World::Timer bootstrap_ = World::kNoTimer;
  std::map<SlotId, WorkerProcess*> processes_;  // the present one of each slot
  std::vector<std::unique_ptr<WorkerProcess>> all_processes_;
};

}  // namespace skyward::sim
