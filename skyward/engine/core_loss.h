#pragma once

// What follows from the end of a node's machine: its tasks run elsewhere, another machine comes in
// its place, or none does. It begins with on_node_lost() of core.h. Steps of the core, which the
// loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

// The node's deadline has passed: its machine is lost, or another one may be asked for now.
void on_late(EngineState& state, EngineEffects& effects, Time now, const Node& node);
// The machine that was asked for did not come, in a running pool.
void on_refused(EngineState& state, EngineEffects& effects, Time now, NodeId node,
                const Error& why);
// Some machines cost no more, or never will: others may be paid for now.
void replace_what_waited(EngineState& state, EngineEffects& effects, Time now);
// Something has ended on the node, while the pool runs out of money: with nothing left to do, its
// machine goes, and none comes after it.
void dismiss_when_done(EngineState& state, EngineEffects& effects, Time now, const Node& node);

}  // namespace skyward::engine
