#pragma once

// A simulated worker process: runs the plans that it is sent, one after another, and sends what a
// real one would send, in the same order.
//
// Messages of the agent's socket arrive in order; interrupts and withdrawals have a pipe of their
// own and may overtake them. Everything that the process sends (greeting, output, items, results,
// its end) arrives in order, too.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/parameters.h"
#include "sim/simulator.h"
#include "sim/task_plan.h"
#include "skyward/agent/core.h"
#include "skyward/agent/effects.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::sim {

// Where an attempt of a task has begun.
struct BeginningPlace {
  std::string machine;
  std::shared_ptr<const bool> runs;  // whether its process still does
};

// Records which attempts of which tasks were begun, for all processes of a run.
class Journal {
 public:
  // Fails if an attempt before it still runs, on a machine that the engine has not lost.
  void begun(TaskId task, std::uint32_t attempt, const BeginningPlace& place);
  std::size_t size() const;
  // The engine has lost this machine, or has let go of it.
  void lost(const std::string& machine) { lost_.insert(machine); }

  // The node's present machine, as the engine knows it.
  void machine(NodeId node, const std::string& address) {
    std::vector<std::string>& addresses = addresses_[node];
    if (addresses.empty() || addresses.back() != address) addresses.push_back(address);
  }
  // The task, which needs those on the other nodes, is sent.
  void sent_together(TaskId task) {
    std::map<NodeId, std::size_t> known;
    for (const auto& [node, addresses] : addresses_) known[node] = addresses.size() - 1;
    sent_together_.emplace(task, std::move(known));
  }
  bool was_sent_together(TaskId task) const { return sent_together_.contains(task); }
  // It begins. Its process must know where the nodes were when it was sent, or are since.
  void begun_together(TaskId task, std::uint32_t attempt, const std::string& instance_info) const;

 private:
  std::map<NodeId, std::vector<std::string>> addresses_;  // of its machines, one after the other
  std::map<TaskId, std::map<NodeId, std::size_t>> sent_together_;
  std::unordered_map<TaskId, std::map<std::uint32_t, BeginningPlace>> begun_;  // by attempt
  std::set<std::string> lost_;
};

class SimulatedWorker {
 public:
  struct Events {
    std::function<void()> on_hello;
    std::function<void(wire::WorkerMessage)> on_message;
    std::function<void(std::vector<wire::OutputLine>)> on_output;
    std::function<void(agent::WorkerExit)> on_exit;  // once, last
  };

  SimulatedWorker(Simulator& simulator, Journal& journal, const NodeParameters& parameters,
                  std::string machine, std::uint32_t worker, std::string instance_info,
                  Events events);

  // From the agent.
  void run(const agent::WorkerRun& run);
  void interrupt(TaskId task);
  void withdraw(std::span<const TaskId> tasks);
  // Takes effect at once: agent and worker share the memory that says so.
  std::optional<std::uint32_t> take_rest(TaskId group);
  void credit(TaskId task, std::uint32_t count);
  void drop(FunctionId function);
  void tell_instance_info(std::string instance_info);
  void stop();
  void kill();
  // The machine is off: sends nothing more.
  void vanish();

  bool alive() const { return *alive_; }

 private:
  struct Run {
    wire::RunTask task;
    TaskPlan plan;
    std::uint32_t sent = 0;     // items of a stream
    std::uint32_t claimed = 0;  // calls of a group
    std::uint32_t credits = 0;
    std::uint32_t lines = 0;
    bool told_to_end = false;
    Time began{};
  };

  // Calls `event` when what is sent now would arrive in the process.
  void deliver(Simulator::Event event);
  void deliver_now(Simulator::Event event);
  // The other direction.
  void tell(Simulator::Event event);

  void start();
  void begin_next();
  void proceed();
  void next_item();
  void next_call();
  void tell_item(TaskId task, wire::Payload payload);
  void print(std::uint32_t until);
  void finish(wire::WorkerStatus status, std::uint64_t value);
  void answer_cancelled(TaskId task);
  void interrupted(TaskId task);
  void die(agent::WorkerExit exit);
  void end_current();

  Simulator& simulator_;
  Journal& journal_;
  NodeParameters parameters_;
  std::string machine_;
  std::uint32_t worker_;
  std::string instance_info_;  // as the process knows it
  Events events_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  TaskId begun_;  // the last one
  bool stopping_ = false;
  Time last_in_{};
  Time last_out_{};
  std::deque<Run> waiting_;
  std::optional<Run> current_;
  std::unordered_set<TaskId> skipped_;  // withdrawn or interrupted before they began
  std::unordered_set<FunctionId> functions_;
  Simulator::Timer step_ = Simulator::kNoTimer;  // of the current task
};

}  // namespace skyward::sim
