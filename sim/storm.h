#pragma once

// One whole pool in virtual time, from one seed: the real engine core, a real agent core on each
// machine, real sessions between them; cloud, network, processes and user are simulated, with
// faults. SKYWARD_CHECK tests the invariants on the way.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/cloud.h"
#include "sim/link.h"
#include "sim/parameters.h"
#include "sim/simulator.h"
#include "sim/user.h"
#include "skyward/base/turn.h"
#include "skyward/engine/core.h"
#include "skyward/engine/effects.h"

namespace skyward::sim {

struct StormOptions {
  std::uint64_t seed = 1;
  int nodes = 0;  // 0: drawn from the seed
  int tasks = 0;
  bool jobs = false;  // each launch is a job; otherwise drawn
  bool verbose = false;
};

// The statistics of a run, for people.
struct StormReport {
  std::uint64_t steps = 0;
  double virtual_seconds = 0;
  std::size_t machines = 0;
  int answered = 0;
  std::size_t starts = 0;  // of tasks on workers
  int retries = 0;         // attempts after the first
  int recalls = 0;
  int losses = 0;   // of nodes
  int offline = 0;  // attempts to reach one without a network
  int breaks = 0;   // of connections
  int notices = 0;  // of preemptions
  double dollars = 0;
  int deaths = 0;            // of pools whose program was killed
  int ran_nothing = 0;       // nodes where no worker process has begun a task
  std::size_t restarts = 0;  // of agents, on a machine that had one
  double worst_error = 0;    // of the engine's sum, as a share of the cloud's bill
  int budgets = 0;           // pools that had one
  int warnings = 0;          // ... and nearly spent it
  int stops = 0;             // ... and were stopped by it
  int fetches = 0;           // of blobs by one node from another
  int stalls = 0;            // fetches given up, since the source had no new data
  int jobs = 0;              // preempted, with all their nodes

  StormReport& operator+=(const StormReport& other);
};

class Storm final : private engine::EngineEffects {
 public:
  explicit Storm(const StormOptions& options);

  // Runs from open to the end. Aborts the program if something is wrong.
  StormReport run();

 private:
  void list_offers() override;
  void prepare(const Offer& offer) override;
  void provision(int count, NodeId first_node) override;
  void terminate(std::vector<InstanceId> instances) override;
  void teardown() override;
  void stop_launching() override;
  void ask_charges(std::vector<InstanceId> instances) override;
  void connect(NodeId node, const Instance& instance) override;
  void disconnect(NodeId node) override;
  void send(NodeId node, wire::Message message) override;
  void complete(TaskId task, wire::Outcome outcome) override;
  void deliver_item(TaskId task, wire::Payload item) override;
  void retain_blob(const wire::Blob& blob) override;
  void emit(Event event) override;
  void opened(Status status) override;
  void closed(Status left) override;

  // Runs `step` on the core with the present time, then updates the timer.
  template <typename Step>
  void turn(Step step);
  void arm_timer();
  void check(bool always);
  void check_bill();
  void check_together(const wire::RunTask& run);
  void kill_engine();
  void give_up(NodeId node, const SimulatedLink& link);

  Simulator simulator_;
  StormParameters parameters_;
  Journal journal_;
  SimulatedCloud cloud_;
  User user_;
  engine::EngineState state_;
  Turns turn_;  // of state_
  std::map<NodeId, SimulatedLink*> links_;
  std::map<NodeId, SimulatedMachine*> places_;  // where each link leads
  std::set<NodeId> taken_back_;                 // whose present machine has its preemption notice
  std::vector<std::unique_ptr<SimulatedLink>> all_links_;
  Simulator::Timer timer_ = Simulator::kNoTimer;
  std::uint64_t turns_ = 0;
  double final_cost_ = 0;
  std::set<InstanceId> standing_;       // announced, and their end not announced yet
  std::map<InstanceId, Time> lost_at_;  // and the cloud not yet asked to end it
  bool launching_ = true;
  bool all_told_ = false;             // the cloud's last charges have arrived
  bool killed_ = false;               // the engine's process
  std::set<SimulatedMachine*> lost_;  // lost or closed, and not known to have ended
  StormReport report_;
};

}  // namespace skyward::sim
