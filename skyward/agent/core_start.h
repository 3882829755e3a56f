#pragma once

// The part of the core that starts and kills worker processes. Used by the other parts only.

#include <string>

#include "skyward/agent/core.h"

namespace skyward::agent {

// Starts the slot's process when its turn comes: only AgentState::start_lanes start at a time, so
// that none waits for the processor until its deadline, and the agent itself always gets some.
void request_start(AgentState& state, AgentEffects& effects, Slot& slot, Time now);
// Starts queued processes as far as there is room. Call when a process has greeted or ended, and
// when next_start() has come.
void start_queued(AgentState& state, AgentEffects& effects, Time now);
// When a process has been starting for so long that the next one need not wait for it.
Time next_start(const AgentState& state);

// Kills a slot's process, if it has one already; its end will tell `reason`.
void kill_slot(AgentState& state, Slot& slot, AgentEffects& effects, std::string reason);

}  // namespace skyward::agent
