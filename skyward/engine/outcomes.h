#pragma once

// What a caller gets for a task: its result, or an error that says where it failed, and why. Part
// of Tasks: pure.

#include <string>

#include "skyward/base/error.h"
#include "skyward/engine/node_loads.h"
#include "skyward/engine/task.h"
#include "skyward/wire/call.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

// Of a task that never ran ...
wire::Outcome failure(Error error);
// ... and of one that was on this node or was to run there.
wire::Outcome failure_on(const NodeLoad& node, Error error);

// For a task that does not run again on another machine: its attempts are used up, its reader has
// seen some items, or it needs the tasks on the other nodes. `why`: how the node was lost.
Error lost_error(const NodeLoad& node, const Task& task, const Error& why);

// Of a stream of which an item cannot be sent, or stored here. `why`: in the words of that side.
Error undelivered_error(const NodeLoad& node, const Task& task, const std::string& why);

// What the agent's verdict means for the caller. Takes what it needs out of `result`.
wire::Outcome make_outcome(const Task& task, const NodeLoad& node, wire::TaskResult& result);

}  // namespace skyward::engine
