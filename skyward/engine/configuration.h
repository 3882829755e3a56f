#pragma once

// What the engine sends a node's agent after the greeting: the environment to set up, the workers
// to start, and what each worker knows about the pool.

#include "skyward/base/time.h"
#include "skyward/engine/core.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

wire::Configure configuration(const EngineState& state, Time now, const Node& node,
                              NodeSetup setup);

// Tells the other nodes the address of one that has got a new machine.
void tell_peers(const EngineState& state, EngineEffects& effects, const Node& moved);

}  // namespace skyward::engine
