#pragma once

// What follows from the pool's cost: the core refuses tasks, releases machines, closes the pool.
// budget.h makes the judgement. Parts of the core that the loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

// Machines have launched: their cost counts from now on.
void begin_to_pay(EngineState& state, EngineEffects& effects, Time now);
// The machines' cost has changed, or time has passed: acts on the budget.
void act_on_budget(EngineState& state, EngineEffects& effects, Time now);
// The next CostUpdate is due, unless metrics have brought one.
void tell_cost(EngineState& state, EngineEffects& effects, Time now);
// The cloud's bills are due.
void ask_for_bills(EngineState& state, EngineEffects& effects, Time now);

}  // namespace skyward::engine
