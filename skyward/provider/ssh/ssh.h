#pragma once

// Machines that the user already has and can log in to. Each is one node while the pool is open.
// Nothing is rented or switched off; what a pool needs goes into ~/.cache/skyward of the login
// user.
//
// A machine may serve several pools at once: each pool runs its own agent on it.

#include <memory>
#include <string>

#include "skyward/provider/provider.h"
#include "skyward/provider/remote_image.h"

namespace skyward::provider {

// Settings: "hosts" (one a line, as parse_ssh_target() reads them), "user", "port",
// "identity_file", "jump" (comma-separated), "host_keys" (SettingKind::host_keys: a path, lines, or
// a key for each of the hosts and jumps, named as there), "config" (path of an ssh configuration).
//
// `state_root`: a directory for host keys that are given as text; made if it is missing.
Result<std::unique_ptr<Provider>> make_ssh(const ProviderSpec& spec, Variable variable,
                                           std::string state_root);
Result<std::unique_ptr<Provider>> make_ssh(const ProviderSpec& spec);

}  // namespace skyward::provider
