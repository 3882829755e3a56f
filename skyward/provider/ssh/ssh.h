#pragma once

// Machines that one has already and can log in to: each is one node, for as long as the pool is
// open. Nothing is rented, nothing is switched off; what a pool needs there is put into the
// ~/.cache/skyward of the user that logs in.
//
// A machine may serve several pools at once: each pool has an agent of its own on it.

#include <memory>
#include <string>

#include "skyward/provider/provider.h"
#include "skyward/provider/remote_image.h"

namespace skyward::provider {

// Settings: "hosts" (one a line, as parse_ssh_target() reads them), "user", "port",
// "identity_file", "jump" (comma-separated), "host_keys" (SettingKind::host_keys: a path, lines, or
// a key for each of the hosts and jumps, named as there), "config" (path of an ssh configuration).
//
// `state_root`: a directory that is made when missing, for the host keys that are given as text.
Result<std::unique_ptr<Provider>> make_ssh(const ProviderSpec& spec, Variable variable,
                                           std::string state_root);
Result<std::unique_ptr<Provider>> make_ssh(const ProviderSpec& spec);

}  // namespace skyward::provider
