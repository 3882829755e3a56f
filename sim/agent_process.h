#pragma once

// One run of an agent on a machine: the real core, its worker processes, and a loop that is as thin
// as possible. An agent that starts later on the same machine is another AgentProcess.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/parameters.h"
#include "sim/simulator.h"
#include "sim/worker_process.h"
#include "skyward/agent/core.h"
#include "skyward/agent/effects.h"
#include "skyward/base/turn.h"

namespace skyward::sim {

class AgentProcess final : private agent::AgentEffects {
 public:
  struct Events {
    std::function<void(wire::Message)> send;  // to the engine
    std::function<void(Duration interval)> start_heartbeats;
    std::function<void()> on_link_timer;                     // the link's timer, in our loop
    std::function<void()> on_end_machine;                    // by the command that ends its cost
    std::function<void(const std::string& reason)> on_exit;  // in order; once
    std::function<bool()> may_work;                          // no other agent works on this machine
  };

  AgentProcess(Simulator& simulator, Journal& journal, const NodeParameters& parameters,
               std::string name, Events events);

  // Something has arrived. Handles it now, or when the loop gets there.
  void come(Simulator::Event step);
  // The link's timer is due.
  void ring_link();
  // From its end of the link, as part of handling it.
  void receive(const wire::Message& message);
  void heard();
  void cut_off();

  // The cloud's preemption notice.
  void announce_end(Duration left);
  // It dies with its children, without a message.
  void kill();
  bool runs() const { return state_.phase != agent::AgentPhase::ended; }
  // It exited in order after it was configured.
  bool has_ended() const { return exited_ && state_.configured_at != Time{}; }
  std::size_t processes() const;
  Time ended_at() const { return ended_at_; }

 private:
  void send(wire::Message message) override;
  void start_bootstrap(const wire::Configure& configure) override;
  void kill_bootstrap() override;
  void start_worker(SlotId slot) override;
  void run(SlotId slot, const agent::WorkerRun& run) override;
  void interrupt(SlotId slot, TaskId task) override;
  void withdraw(SlotId slot, std::span<const TaskId> tasks) override;
  void warn(SlotId slot, Duration left) override;
  std::optional<std::uint32_t> take_rest(SlotId slot, TaskId group) override;
  void credit(SlotId slot, TaskId task, std::uint32_t count) override;
  void drop_function(SlotId slot, FunctionId function) override;
  void tell_instance_info(SlotId slot, const std::string& compute_pool) override;
  void stop_worker(SlotId slot) override;
  void kill_worker(SlotId slot) override;
  void end_machine(std::vector<std::string> command) override;
  void exit(int code) override;

  void turn(Simulator::Event step);
  void look(bool was_held_up);
  void ring();
  void hold_up(Duration time);
  void wake_at(Time time);
  void stall_later();
  void arm_timer();
  void end();
  void sample_metrics(Duration interval);
  SimulatedWorker& process(SlotId slot) { return *processes_.at(slot); }

  Simulator& simulator_;
  Journal& journal_;
  NodeParameters parameters_;
  std::string name_;
  Events events_;
  Time ended_at_ = kNever;
  bool exited_ = false;  // not killed
  agent::AgentState state_;
  Turns turn_;                           // of state_
  std::deque<Simulator::Event> unread_;  // what has arrived and was not handled
  Time busy_until_{};                    // the loop is stalled until then
  bool waking_ = false;                  // an event is scheduled for then
  bool looking_ = false;
  bool link_due_ = false;  // the link's timer was due meanwhile
  std::uint64_t turns_ = 0;
  Simulator::Timer timer_ = Simulator::kNoTimer;
  Simulator::Timer bootstrap_ = Simulator::kNoTimer;
  std::map<SlotId, SimulatedWorker*> processes_;  // the present one of each slot
  std::vector<std::unique_ptr<SimulatedWorker>> all_processes_;
  std::map<SlotId, int> starts_without_task_;  // in a row
};

}  // namespace skyward::sim
