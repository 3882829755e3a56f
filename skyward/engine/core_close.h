#pragma once

// How a pool closes, for whatever reason. The steps, in order; each waits for what the previous one
// asked for:
//
//   start_closing()   no task is left, agents are told to end
//   release_machines() when the last agent has exited or was cut off, and every request for machines
//                     was answered
//   remove_shared()   when the last machine has ended, or cannot be terminated
//   finish_closing()  when the machines' shared resources are removed
//
// on_close() of core.h begins it; on_hurry(), for a second Ctrl-C, cuts it short. Parts of the core
// that the loop does not call.

#include "skyward/engine/core.h"

namespace skyward::engine {

// Opening has failed: releases everything, then reports why to the caller.
void fail_open(EngineState& state, EngineEffects& effects, Time now, Error why);
void start_closing(EngineState& state, EngineEffects& effects, Time now);
void release_machines(EngineState& state, EngineEffects& effects);
void remove_shared(EngineState& state, EngineEffects& effects);
void finish_closing(EngineState& state, EngineEffects& effects, Time now, const Status& removed,
                    const std::vector<InstanceId>& standing);

// The pool's timeout has expired. Later calls fail with the same error.
void end_lifetime(EngineState& state, EngineEffects& effects, Time now);
// The agents of these nodes end before they have unmounted their volumes.
void tell_cut_off(EngineEffects& effects, const std::vector<std::string>& nodes);
// The close_deadline has come: cuts off agents that have not exited.
void check_close(EngineState& state, EngineEffects& effects, Time now);
// Reports what closing waits for, if it takes long.
void check_wait(EngineState& state, EngineEffects& effects, Time now);

}  // namespace skyward::engine
