#pragma once

// What an agent may send, and when. Its bytes come from another machine: whatever they are, they
// must never reach a CHECK of the core. A node that breaks the protocol is lost; nothing else
// happens.

#include "skyward/base/error.h"
#include "skyward/engine/nodes.h"
#include "skyward/engine/tasks.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

// Whether the node's agent may send this now. Fails with `lost`.
Status check_message(const Node& node, const Tasks& tasks, const wire::Message& message);

}  // namespace skyward::engine
