#include "skyward/provider/ssh/key_pair.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "skyward/provider/ssh/command.h"

namespace skyward::provider {

namespace {

constexpr Duration kKeyTimeout = std::chrono::seconds(10);
constexpr const char* kInstall =
    "install the OpenSSH client, for example with 'apt-get install openssh-client'";

// What it printed. "Saving key … failed: No space left on device" goes to stdout or stderr,
// depending on the version.
std::string why_it_failed(const io::CommandResult& ended) {
  std::string said = ended.err + ended.out;
  while (said.ends_with('\n')) said.pop_back();
  if (!said.empty()) return said;
  return ended.status.signal != 0 ? fmt::format("it was killed by signal {}", ended.status.signal)
                                  : fmt::format("exit code {}", ended.status.code);
}

}  // namespace

Result<KeyPair> make_key_pair(const World& world, const std::string& path) {
  io::SpawnOptions options;
  options.command = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "skyward", "-f", path};
  const auto made = world.run(options, kKeyTimeout);
  if (!made) {
    const bool missing = made.error().kind == ErrorKind::invalid;  // it cannot be started at all
    return fail(missing ? ErrorKind::unsupported : ErrorKind::unavailable,
                fmt::format("ssh-keygen cannot create a key: {}", made.error().message),
                missing ? kInstall : made.error().hint);
  }
  if (made->status.code != 0 || made->status.signal != 0) {
    const std::string why = why_it_failed(*made);
    const std::string message = fmt::format("ssh-keygen cannot create a key: {}", why);
    if (why.contains(kUnknownUser)) return fail(ErrorKind::unsupported, message, kUnknownUserHint);
    return fail(ErrorKind::unavailable, message,
                fmt::format("see whether 'ssh-keygen -t ed25519' works, and whether the disk of {} "
                            "is full",
                            std::filesystem::path(path).parent_path().string()));
  }
  auto secret = world.read_file(path);
  if (!secret) return fail(secret);
  auto line = world.read_file(path + ".pub");
  if (!line) return fail(line);
  while (line->ends_with('\n')) line->pop_back();
  return KeyPair{.secret = *std::move(secret), .public_line = *std::move(line)};
}

Result<HostKey> make_host_key(const World& world, const std::string& path) {
  auto made = make_key_pair(world, path);
  if (!made) return fail(made);
  (void)world.write_file(path, "");
  HostKey key{.secret = std::move(made->secret),
              .public_line = std::move(made->public_line),
              .known_hosts_file = path + ".known"};
  key.known_hosts = "* " + key.public_line + "\n";
  Status written = world.write_file(key.known_hosts_file, key.known_hosts);
  if (!written) return fail(written);
  return key;
}

}  // namespace skyward::provider
