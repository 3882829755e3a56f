#pragma once

// What the engine sends a node's agent after the greeting: the environment to set up, the workers
// to start, and what each worker knows about the pool.

#include "skyward/base/time.h"
#include "skyward/engine/core.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

wire::Configure configuration(const EngineState& state, Time now, const Node& node,
                              NodeSetup setup);

}  // namespace skyward::engine
