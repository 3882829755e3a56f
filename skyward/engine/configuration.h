#pragma once

// What a node's agent is told once it has greeted: the environment to set up, the workers to start,
// and what each of them knows of the pool.

#include "skyward/base/time.h"
#include "skyward/engine/core.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

wire::Configure configuration(const EngineState& state, Time now, const Node& node,
                              NodeSetup setup);

}  // namespace skyward::engine
