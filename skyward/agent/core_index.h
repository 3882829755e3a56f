#pragma once

// Indexes of what the core looks up for each message, so that a lookup costs the same for any
// number of slots. Only the other parts of the core use it.

#include "skyward/agent/core.h"

namespace skyward::agent {

// Places a slot in the indexes. Call after any change of it or of the task at its front.
void reindex(AgentState& state, Slot& slot);

// When the time limit of the slot's front expires; kNever without one.
Time front_deadline(const AgentState& state, const Slot& slot);
// Whether the task stands for several calls.
bool is_group(const wire::RunTask& run);
// When the calls and tasks behind a slow one are taken from the process; kNever if there are none.
Time patience_end(const AgentState& state, const Slot& slot);

// Whether the slot has a process that takes tasks.
bool is_usable(const Slot& slot);

// Aborts the program when the indexes contradict the slots.
void check_indexes(const AgentState& state);

}  // namespace skyward::agent
