#pragma once

// How a pool opens, from the offers to nodes that take tasks; a replacement takes the same steps.
// Parts of the core: the loop calls only those that core.h declares as events.

#include "skyward/engine/core.h"

namespace skyward::engine {

// What was prepared in the previous region is removed, or could not be.
void on_moved_out(EngineState& state, EngineEffects& effects, Time now, const Status& removed);
// The node's agent can run tasks. When all can, the pool is open.
void on_ready(EngineState& state, EngineEffects& effects, Time now, const Node& node,
              const wire::Ready& ready);

}  // namespace skyward::engine
