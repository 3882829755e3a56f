#pragma once

// The part of the core that is about the node as a whole: its setup, its lease and its end. Used by
// the other parts only.

#include <string_view>

#include "skyward/agent/core.h"
#include "skyward/base/time.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

// Sends a line of the node's own, on standard error.
void say(AgentEffects& effects, std::string_view text);

void on_configure(AgentState& state, AgentEffects& effects, const wire::Configure& configure,
                  Time now);
// Another node has got a new machine.
void on_peer_moved(AgentState& state, AgentEffects& effects, const wire::PeerMoved& moved);
// Tells the slot's process what has changed of its instance info since it was started.
void tell_info(AgentState& state, AgentEffects& effects, Slot& slot);
// Sends Ready once the first process of every worker has greeted.
void become_ready(AgentState& state, AgentEffects& effects, Time now);
// Sends Failed, kills all processes and forgets all tasks: the engine runs them on other nodes.
void fail_node(AgentState& state, AgentEffects& effects, wire::Failed failed);

// The engine will end the pool, for a reason that only it knows.
void on_end_ahead(AgentState& state, AgentEffects& effects, const wire::EndAhead& end, Time now);
// The dead man's switch. True when it has ended the agent.
bool check_lease(AgentState& state, AgentEffects& effects, Time now);

void on_shutdown(AgentState& state, AgentEffects& effects, const wire::Shutdown& shutdown,
                 Time now);
// Whether no slot has a process.
bool all_ended(const AgentState& state);
// The end of a shutdown.
void finish_closed(AgentState& state, AgentEffects& effects);

}  // namespace skyward::agent
