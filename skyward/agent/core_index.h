#pragma once

// What the core looks up for each message, kept in order so that it costs the same however many
// slots a node has. Used by the other parts of the core only.

#include "skyward/agent/core.h"

namespace skyward::agent {

// Places a slot in the indexes. Call after any change of it or of the task at its front.
void reindex(AgentState& state, Slot& slot);

// When the front of the slot has used up its time limit; kNever without one.
Time front_deadline(const AgentState& state, const Slot& slot);
// When those behind a slow front are withdrawn; kNever when there are none to withdraw.
Time patience_end(const Slot& slot);

// Whether it has a process that takes tasks.
bool is_usable(const Slot& slot);

// Aborts the program when the indexes contradict the slots.
void check_indexes(const AgentState& state);

}  // namespace skyward::agent
