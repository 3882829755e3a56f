#include "sim/machine.h"

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"

namespace skyward::sim {

std::size_t Host::processes() const {
  std::size_t count = 0;
  for (const auto& agent : agents) count += agent->processes();
  return count;
}

SimulatedMachine::SimulatedMachine(Simulator& simulator, Journal& journal,
                                   const NodeParameters& parameters, std::string name,
                                   SimulatedLink::Door door, std::shared_ptr<Host> host,
                                   std::function<void()> on_end)
    : simulator_(simulator),
      journal_(journal),
      parameters_(parameters),
      name_(std::move(name)),
      door_(door),
      host_(std::move(host)),
      on_end_(std::move(on_end)) {}

void SimulatedMachine::start_agent(const std::set<SimulatedMachine*>& lost) {
  SKYWARD_CHECK(is_on() && !agent_runs(), "{}", name_);
  for (SimulatedMachine* machine : lost) {
    if (machine->host_ == host_) machine->sweep_agent();
  }
  auto agent = std::make_unique<AgentProcess>(
      simulator_, journal_, parameters_, name_,
      AgentProcess::Events{
          .send = [this](wire::Message message) { link_->agent_sends(std::move(message)); },
          .start_heartbeats = [this](Duration interval) { link_->start_heartbeats(interval); },
          .on_link_timer = [this] { link_->agent_rings(); },
          .on_end_machine =
              [this] {
                simulator_.after(simulator_.returns.between(1ms, 5s), [this] {
                  if (!is_on()) return;
                  simulator_.say("{} has ended itself", name_);
                  power_off();
                  on_end_();
                });
              },
          .on_exit = [this](const std::string& reason) { link_->agent_ended(reason); },
          .may_work =
              [host = host_.get()] {
                return std::ranges::count(host->agents, true, &AgentProcess::runs) == 1;
              }});
  agent_ = agent.get();
  host_->agents.push_back(std::move(agent));
}

void SimulatedMachine::announce_end(Duration left) {
  if (agent_runs()) agent_->announce_end(left);
}

void SimulatedMachine::power_off() {
  host_->gone = true;
  go_off();
}

void SimulatedMachine::go_off() {
  if (!std::exchange(host_->on, false)) return;
  for (const auto& agent : host_->agents) agent->kill();
  if (link_ != nullptr) link_->machine_died();
}

void SimulatedMachine::power_off_for(Duration time) {
  if (!is_on()) return;
  simulator_.say("{} is off for {:.1f} s", name_, seconds(time));
  go_off();
  simulator_.after(time, [this] {
    if (host_->gone) return;
    simulator_.say("{} is back", name_);
    host_->on = true;
  });
}

void SimulatedMachine::kill_agent() {
  if (!agent_runs()) return;
  simulator_.say("the agent of {} is killed", name_);
  agent_->kill();
  link_->agent_killed();
}

void SimulatedMachine::sweep_agent() {
  if (is_on() && agent_runs()) agent_->kill();
}

void SimulatedMachine::exchange_agent() {
  if (!agent_runs()) return;
  kill_agent();
  simulator_.after(simulator_.returns.between(1ms, 500ms), [this] {
    if (!is_on() || agent_runs()) return;
    simulator_.say("another agent of {} begins", name_);
    start_agent({});
    link_->agent_started();
  });
}

}  // namespace skyward::sim
