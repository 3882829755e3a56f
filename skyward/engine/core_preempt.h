#pragma once

// Machines that their cloud takes back: nothing new goes to them, what waits there is called back,
// and another machine is bought while the present one still works. The other takes its place, with
// its rank, when the present one has nothing left to do or is gone, whichever is first. Steps of
// the core, which the loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

void on_preempted(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                  const wire::Preempted& notice);
// A node got its preemption notice before it was ready, and is ready now.
void prepare_successor(EngineState& state, EngineEffects& effects, Time now, const Node& node);
// The present machine has answered something: when it has nothing left to do, it goes.
void retire_when_done(EngineState& state, EngineEffects& effects, Time now, const Node& node);

}  // namespace skyward::engine
