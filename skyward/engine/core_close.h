#pragma once

// How a pool ends, whatever began that. The steps, in order; each waits for what the one before it
// asked for:
//
//   start_closing()   no task is left, agents are told to end
//   release_machines() when the last agent has ended, or was cut off, and every request for machines
//                     was answered
//   remove_shared()   when the last machine has ended, or will not
//   finish_closing()  when what the machines shared is removed
//
// Steps of the core (core.h), which the loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

// Opening has failed: everything is released, then the caller is told why.
void fail_open(EngineState& state, EngineEffects& effects, Time now, Error why);
void start_closing(EngineState& state, EngineEffects& effects, Time now);
void release_machines(EngineState& state, EngineEffects& effects);
void remove_shared(EngineState& state, EngineEffects& effects);
void finish_closing(EngineState& state, EngineEffects& effects, Time now, const Status& removed);

// The pool's timeout has expired. Later calls fail with the same error.
void end_lifetime(EngineState& state, EngineEffects& effects, Time now);
// It is close_deadline: agents that have not ended are cut off.
void check_close(EngineState& state, EngineEffects& effects, Time now);
// Says what closing waits for, when that takes long.
void check_wait(EngineState& state, EngineEffects& effects, Time now);

}  // namespace skyward::engine
