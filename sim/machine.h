#pragma once

// An instance of the simulated cloud, and the host that it runs on. Most clouds have a host for
// each instance; a user's own machines are the same hosts again and again, with what was left
// there.

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/agent_process.h"
#include "sim/link.h"
#include "sim/parameters.h"
#include "sim/simulator.h"
#include "sim/worker_process.h"

namespace skyward::sim {

// All agents that ever ran there, for whichever instance.
struct Host {
  bool on = true;
  bool gone = false;  // off for good
  std::vector<std::unique_ptr<AgentProcess>> agents{};

  std::size_t processes() const;
};

class SimulatedMachine {
 public:
  // `on_end`: the machine has terminated itself.
  SimulatedMachine(Simulator& simulator, Journal& journal, const NodeParameters& parameters,
                   std::string name, SimulatedLink::Door door, std::shared_ptr<Host> host,
                   std::function<void()> on_end);

  // Before the first message.
  void attach(SimulatedLink& link) { link_ = &link; }
  const std::string& name() const { return name_; }
  SimulatedLink::Door door() const { return door_; }
  const Host& host() const { return *host_; }
  bool is_on() const { return host_->on; }
  bool agent_runs() const { return agent_ != nullptr && agent_->runs(); }
  // Its last agent was configured and exited in order.
  bool agent_has_ended() const { return agent_ != nullptr && agent_->has_ended(); }

  // From the network.
  void agent_turn(Simulator::Event step) {
    if (agent_ != nullptr) agent_->come(std::move(step));
  }
  void ring_link() { agent_->ring_link(); }
  void receive(const wire::Message& message) { agent_->receive(message); }
  void heard() { agent_->heard(); }
  void cut_off() { agent_->cut_off(); }

  // A connection has come that may start an agent. It first ends the engine's lost agents
  // (engine/lost_agents.h) that it finds here.
  void start_agent(const std::set<SimulatedMachine*>& lost);
  // The cloud's preemption notice.
  void announce_end(Duration left);
  // Ends the machine (on request, by the cloud or by a failure) for good; or for a while.
  void power_off();
  void power_off_for(Duration time);
  // The agent's process dies with its children.
  void kill_agent();
  // The engine's sweep ends the agent in order.
  void sweep_agent();
  // As kill_agent(); and an old connection reaches the machine's shell only now, and starts another
  // agent.
  void exchange_agent();

 private:
  void go_off();

  Simulator& simulator_;
  Journal& journal_;
  NodeParameters parameters_;
  std::string name_;
  SimulatedLink::Door door_;
  std::shared_ptr<Host> host_;
  std::function<void()> on_end_;
  SimulatedLink* link_ = nullptr;
  AgentProcess* agent_ = nullptr;  // the last one of this instance; the host's
};

}  // namespace skyward::sim
