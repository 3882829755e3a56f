#pragma once

// SSH keys, made by ssh-keygen for one pool or one launch and deleted with it.

#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

struct KeyPair {
  std::string secret{};       // the private key, as its file has it
  std::string public_line{};  // one line
};
// Makes an ed25519 pair: the private key at `path`, the public one at `path`.pub. Fails with
// `unsupported` without ssh-keygen.
Result<KeyPair> make_key_pair(const World& world, const std::string& path);

// Proves that a machine belongs to a launch.
struct HostKey {
  std::string secret{};            // the private key; no file has it any more
  std::string public_line{};       // one line
  std::string known_hosts_file{};  // for ssh: accepts this key from any address
  std::string known_hosts{};       // what is in it
};
Result<HostKey> make_host_key(const World& world, const std::string& path);

}  // namespace skyward::provider
