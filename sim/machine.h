#pragma once

// An instance of the simulated cloud, and the host that it stands on. Most clouds have a host for
// each; machines of one's own are the same hosts again and again, with what was left there.

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

// All agents that ever began there, whatever instance they served.
struct Host {
  bool on = true;
  bool gone = false;  // off, and for good
  std::vector<std::unique_ptr<AgentProcess>> agents{};

  std::size_t processes() const;
  bool has_agent() const;  // that runs
};

class SimulatedMachine {
 public:
  // `on_end`: it has ended itself, and what it costs.
  SimulatedMachine(Simulator& simulator, Journal& journal, const NodeParameters& parameters,
                   std::string name, SimulatedLink::Door door, std::shared_ptr<Host> host,
                   std::function<void()> on_end);

  // Before the first message.
  void attach(SimulatedLink& link) { link_ = &link; }
  SimulatedLink::Door door() const { return door_; }
  const Host& host() const { return *host_; }
  bool is_on() const { return host_->on; }
  bool agent_runs() const { return agent_ != nullptr && agent_->runs(); }
  // Its last agent was told what it is, and ended in order.
  bool agent_has_ended() const { return agent_ != nullptr && agent_->has_ended(); }

  // From the network.
  void agent_turn(Simulator::Event step) {
    if (agent_ != nullptr) agent_->come(std::move(step));
  }
  void ring_link() { agent_->ring_link(); }
  void receive(const wire::Message& message) { agent_->receive(message); }
  void heard() { agent_->heard(); }
  void cut_off() { agent_->cut_off(); }

  // A connection has come that may start an agent. It ends those of the engine's lost
  // (engine/lost_agents.h) that it finds here.
  void start_agent(const std::set<SimulatedMachine*>& lost);
  // The cloud's word that it takes the machine back.
  void announce_end(Duration left);
  // By us or by the cloud, or by its own fault: for good, or for a while.
  void power_off();
  void power_off_for(Duration time);
  // The agent's process dies, and its children with it.
  void kill_agent();
  // ... by the engine's sweep, which ends it in order.
  void sweep_agent();
  // As kill_agent(), and a connection of long ago comes to its shell only now, and starts another.
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
