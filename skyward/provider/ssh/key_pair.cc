#include "skyward/provider/ssh/key_pair.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace skyward::provider {

namespace {

constexpr Duration kKeyTimeout = std::chrono::seconds(10);

}  // namespace

Result<std::string> make_key_pair(const World& world, const std::string& path) {
  io::SpawnOptions options;
  options.command = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "skyward", "-f", path};
  const auto made = world.run(options, kKeyTimeout);
  if (!made || made->status.code != 0 || made->status.signal != 0) {
    return fail(
        ErrorKind::unsupported,
        fmt::format("ssh-keygen cannot create a key: {}", made ? made->err : made.error().message),
        "install the OpenSSH client, for example with 'apt-get install openssh-client'");
  }
  Result<std::string> text = world.read_file(path + ".pub");
  while (text && text->ends_with('\n')) text->pop_back();
  return text;
}

Result<HostKey> make_host_key(const World& world, const std::string& path) {
  auto made = make_key_pair(world, path);
  if (!made) return fail(made);
  auto secret = world.read_file(path);
  if (!secret) return fail(secret);
  (void)world.write_file(path, "");
  HostKey key{.secret = *std::move(secret),
              .public_line = *std::move(made),
              .known_hosts_file = path + ".known"};
  Status written = world.write_file(key.known_hosts_file, "* " + key.public_line + "\n");
  if (!written) return fail(written);
  return key;
}

}  // namespace skyward::provider
