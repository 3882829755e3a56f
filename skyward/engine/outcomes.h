#pragma once

// What a caller gets for a task: its result, or an error that says where it failed, and why. Part
// of Tasks: pure.

#include "skyward/base/error.h"
#include "skyward/engine/node_loads.h"
#include "skyward/engine/task.h"
#include "skyward/wire/call.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

// Of a task that never ran ...
wire::Outcome failure(Error error);
// ... and of one that was on this node.
wire::Outcome failure_on(const NodeLoad& node, Error error);

// Of a task that is not tried again on another machine: it was often enough, its reader has seen a
// part, or it needed those on the other nodes. `why`: what became of the node.
Error lost_error(const NodeLoad& node, const Task& task, const Error& why);

// What the agent's verdict means for the caller. Takes what it needs out of `result`.
wire::Outcome make_outcome(const Task& task, const NodeLoad& node, wire::TaskResult& result);

}  // namespace skyward::engine
