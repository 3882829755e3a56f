#pragma once

// What follows when a node loses its machine: its tasks run elsewhere, and another machine replaces
// it, or none. Starts with on_node_lost() of core.h. Parts of the core that the loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

// The node has lost its machine, or will: if the machine has worked for long, its replacements
// count from zero again.
void note_loss(EngineState& state, Time now, const Node& node);
// The agent of a preempted machine has ended, or is not waited for: the successor takes its place.
void hand_over(EngineState& state, EngineEffects& effects, Time now, const Node& node);
// The time that an opening goes on after a loss is over.
void end_opening(EngineState& state, EngineEffects& effects, Time now);
// The node's deadline has passed: its machine is lost, or another one may be requested now.
void on_late(EngineState& state, EngineEffects& effects, Time now, const Node& node);
// The requested machine was not provisioned; `is_successor`: it was requested
// while the node's machine worked.
void on_refused(EngineState& state, EngineEffects& effects, Time now, NodeId node,
                bool is_successor, const Error& why);
// Some machines no longer cost anything: the budget may allow others now.
void replace_what_waited(EngineState& state, EngineEffects& effects, Time now);
// The node's agent unmounts its volumes, so that what was written reaches their stores, and ends.
void unmount(EngineState& state, EngineEffects& effects, Time now, const Node& node);
// While the budget runs out: if the node is idle, it gets no more tasks and no other machine.
// Returns its machines, to be released; none of one that unmounts its volumes first.
std::vector<InstanceId> dismiss_if_idle(EngineState& state, EngineEffects& effects, Time now,
                                        const Node& node);
// A task has ended on the node, or its agent has: the same, and releases them.
void dismiss_when_done(EngineState& state, EngineEffects& effects, Time now, const Node& node);

}  // namespace skyward::engine
