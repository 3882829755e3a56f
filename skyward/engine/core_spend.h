#pragma once

// What follows from what the pool costs: tasks are refused, machines go, the pool ends. The budget
// judges (budget.h). Steps of the core, which the loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

// Machines are there: what they cost is followed from now on.
void begin_to_pay(EngineState& state, EngineEffects& effects, Time now);
// The machines cost something else than before, or time has passed: acts on the budget.
void look_at_budget(EngineState& state, EngineEffects& effects, Time now);
// The cloud's bills are due.
void ask_for_bills(EngineState& state, EngineEffects& effects, Time now);

}  // namespace skyward::engine
