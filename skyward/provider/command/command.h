#pragma once

// Nodes that are reached by commands which the user names: anything that takes one more argument
// and runs it in a shell, {"podman", "exec", "-i", "c1", "sh", "-c"}, {"kubectl", "exec", "-i",
// "pod", "--", "sh", "-c"}, {"sh", "-c"}. One command is one node; nothing is launched and nothing
// is switched off.
//
// Settings: `commands`, a JSON array of arrays of words; `addresses`, a JSON array of where the
// node of each command is reached by the others, or nothing for nodes on one machine; `python`, the
// interpreter of nodes that see this machine's files. Without it each node gets the image as any
// remote machine does.

#include <memory>

#include "skyward/provider/provider.h"

namespace skyward::provider {

// Fails with `invalid` on commands that are none, and addresses that do not fit them.
Result<std::unique_ptr<Provider>> make_command(const ProviderSpec& spec);

}  // namespace skyward::provider
