#pragma once

// The part of the core that moves tasks: queue → window of a slot → answered. Used by the other
// parts only.

#include <string>

#include "skyward/agent/core.h"

namespace skyward::agent {

// Adds a task to its queue in order of arrival; `task` is in state.tasks already.
void enqueue(AgentState& state, TaskId task);
// Takes a queued task out of its queue.
void unqueue(AgentState& state, TaskId task);

// Sends queued tasks to slots and starts the slots that are needed, as far as possible now.
void dispatch(AgentState& state, AgentEffects& effects, Time now);

// Takes a task out of its slot's window; the next one becomes the front.
void leave_window(AgentState& state, AgentEffects& effects, TaskId task, Time now);

// Answers a task and forgets it; it is in no queue and no window.
void answer(AgentState& state, AgentEffects& effects, TaskId task, wire::TaskResult result);
// The same for a task that the agent ends: a status with its detail, no payload.
void answer_status(AgentState& state, AgentEffects& effects, TaskId task, wire::TaskStatus status,
                   std::uint32_t worker, std::string detail);

// Cancels a task or ends it at its time limit: at once if queued, else by interrupting it.
void end_early(AgentState& state, AgentEffects& effects, TaskId task, wire::TaskStatus status,
               Time now);
// "cancelled", "ran longer than 5 s".
std::string ending_detail(const AgentTask& task);

}  // namespace skyward::agent
