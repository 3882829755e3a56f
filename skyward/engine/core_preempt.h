#pragma once

// Machines that their cloud preempts: they get no new tasks, waiting tasks are recalled, and a
// replacement is provisioned while the present machine still works. The replacement takes over the
// number when the present machine is idle or gone, whichever is first. Parts of the core that the
// loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

void on_preempted(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                  const wire::Preempted& notice);
// If the node is being preempted: recalls the tasks that wait there and requests a successor,
// unless the pool wants none, one is on order, or the budget forbids it.
void prepare_successor(EngineState& state, EngineEffects& effects, Time now, const Node& node);
// The present machine has answered a task: releases it if it is idle now.
void retire_when_done(EngineState& state, EngineEffects& effects, Time now, const Node& node);

}  // namespace skyward::engine
