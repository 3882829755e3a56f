#pragma once

// Reaching a node with the OpenSSH client: its command line, and explanations of its errors. Pure:
// text in, text out.
//
// The user's configuration, agent and keys apply, except where a pool depends on something else:
// ssh never prompts, always verifies the host key, and forwards nothing. Neither our settings nor
// the user's files can turn verification off. A master connection of the user's that runs already
// is used, unless the options name keys, as they do for rented machines.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward::provider {

// Where to log in. Empty or 0: as the user's configuration says.
struct SshTarget {
  std::string host{};  // address, name, or a Host of ~/.ssh/config
  std::string user{};
  int port = 0;

  bool operator==(const SshTarget&) const = default;

  // "user@host:port", without the parts that are empty.
  std::string text() const;
  // The same in lower case, without the user.
  std::string place() const;
};

// "host", "user@host", "host:port", "[::1]:22", "ssh://user@host:port". Fails with `invalid` on
// anything that a shell or ssh could misread.
Result<SshTarget> parse_ssh_target(std::string_view text);

// Whether it is a login name that no shell and no ssh misreads: "alice", "CORP\\alice".
bool is_ssh_user(std::string_view name);

struct SshOptions {
  std::string identity_file{};     // only this key; empty: the user's keys and agent
  std::vector<SshTarget> jumps{};  // through these, in order
  // Carries the connection instead of TCP and jumps: a shell command, in which ssh replaces %h and
  // %p with host and port.
  std::string proxy_command{};
  std::string known_hosts_file{};  // only these host keys count; empty: the user's files
  bool pinned = false;  // that file names the machines as the targets do: host or host:port
  std::string configuration_file{};  // instead of ~/.ssh/config
  std::string program = "ssh";
};

// argv, without the command to run on the node.
std::vector<std::string> ssh_command(const SshTarget& target, const SshOptions& options);

// What ssh says when a retry cannot help.
std::vector<std::string> permanent_ssh_errors();
// The same, for a machine that has never been reached. Later, its sshd may only be restarting.
std::vector<std::string> hopeless_ssh_errors();

// What ssh and ssh-keygen say when this process's user has no entry in /etc/passwd, and what to do.
inline constexpr std::string_view kUnknownUser = "No user exists for uid";
inline constexpr const char* kUnknownUserHint =
    "this user id has no entry in /etc/passwd here, and ssh needs one: add it to the image, or run "
    "as a user that has one";

// What ssh wrote, without its complaint about a stale socket: the master connection has died, and
// ssh makes its own.
std::string without_stale_master(std::string words);

// Adds what to do to an error that contains ssh's output, which stays in the message. Returns other
// errors unchanged.
Error explain_ssh_error(const SshTarget& target, const SshOptions& options, Error error);

}  // namespace skyward::provider
