#pragma once

// The part of the core that starts and kills worker processes. Used by the other parts only.

#include <cstdint>
#include <string>

#include "skyward/agent/core.h"

namespace skyward::agent {

// When all slots have failed so often, and no process has ever begun a task, the node fails.
inline constexpr std::uint32_t kMaxFailedRounds = 3;
// A function of this size may be too large for a process's memory: then the node is not to blame.
inline constexpr std::uint64_t kHeavyFunctionBytes = std::uint64_t{16} << 20;

// Starts the slot's process in its turn: only AgentState::max_starting start at a time, so that all
// get enough CPU to greet before their deadlines, and so does the agent itself. After failures, its
// turn comes after a pause.
void request_start(AgentState& state, AgentEffects& effects, Slot& slot, Time now);
// The slot's pause is over.
void end_pause(AgentState& state, Slot& slot);
// Starts queued processes as far as there is room. Call when a process has greeted or ended, and
// when next_start() has come.
void start_queued(AgentState& state, AgentEffects& effects, Time now);
// When a process has been starting for so long that the next one no longer waits for it.
Time next_start(const AgentState& state);

// Kills a slot's process, if it has one; its end will report `reason`.
void kill_slot(AgentState& state, Slot& slot, AgentEffects& effects, std::string reason);

}  // namespace skyward::agent
