#pragma once

// The OpenSSH client as a way to a node: its command line, and what it says when it fails. Pure:
// text in, text out.
//
// The user's own configuration, agent and keys are honoured, but for what a pool depends on: ssh
// asks nothing, verifies the host key always and forwards nothing. No setting of ours, and none of
// the user's files, switches the verification off.

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

  // "user@host:port" with what is given.
  std::string text() const;
  // The same without the user, in lower case.
  std::string place() const;
};

// "host", "user@host", "host:port", "[::1]:22", "ssh://user@host:port". Fails with `invalid` on
// anything that a shell or ssh could take for something else.
Result<SshTarget> parse_ssh_target(std::string_view text);

struct SshOptions {
  std::string identity_file{};     // only this key; empty: the user's keys and agent
  std::vector<SshTarget> jumps{};  // by way of these, in order
  // Carries the connection instead of TCP and jumps; for a shell, in which ssh replaces %h and
  // %p by host and port.
  std::string proxy_command{};
  std::string known_hosts_file{};  // only these host keys count; empty: the user's files
  bool pinned = false;  // that file names the machines as the targets do: host or host:port
  std::string configuration_file{};  // instead of ~/.ssh/config
  std::string program = "ssh";
};

// argv up to and without the command that shall run on the node.
std::vector<std::string> ssh_command(const SshTarget& target, const SshOptions& options);

// Words of ssh after which trying again is of no use.
std::vector<std::string> permanent_ssh_errors();
// ... while the machine has never been reached: later it may only be its sshd restarting.
std::vector<std::string> hopeless_ssh_errors();

// A failure whose message holds what ssh wrote, told so that it says what to do. ssh's own words
// stay in it. Other failures come back unchanged.
Error explain_ssh_error(const SshTarget& target, const SshOptions& options, Error error);

}  // namespace skyward::provider
