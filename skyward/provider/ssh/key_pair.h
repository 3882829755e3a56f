#pragma once

// SSH keys, made by ssh-keygen for one pool or one launch and deleted with it.

#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Makes an ed25519 pair: the private key at `path`, the public one at `path`.pub. Returns the
// public one, without a newline. Fails with `unsupported` without ssh-keygen.
Result<std::string> make_key_pair(const World& world, const std::string& path);

// Proves that a machine belongs to a launch.
struct HostKey {
  std::string secret{};            // the private key; no file has it any more
  std::string public_line{};       // one line
  std::string known_hosts_file{};  // for ssh: accepts this key from any address
};
Result<HostKey> make_host_key(const World& world, const std::string& path);

}  // namespace skyward::provider
