#pragma once

// How a pool opens, from the offers to nodes that take tasks; a replaced node comes the same way.
// The rest is events of core.h. Steps of the core, which the loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

// What was prepared in the region before is removed, or was not.
void on_moved_out(EngineState& state, EngineEffects& effects, Time now, const Status& removed);
// The node's agent can run tasks. When all can, the pool is open.
void on_ready(EngineState& state, EngineEffects& effects, Time now, const Node& node,
              const wire::Ready& ready);

}  // namespace skyward::engine
