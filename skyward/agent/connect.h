#pragma once

// How an engine's command finds the daemon of its node: `skyward-agent connect` passes the
// command's standard streams on to the daemon through its socket, and starts the daemon if there is
// none. The daemon outlives the command.
//
// Each daemon of a user has a directory of its own, /tmp/skyward-<uid>/nodes/<pool>.<node>.<life>.,
// that only this user can read: `socket`, `log`, the folder where tasks run, and `lock`, which the
// daemon holds while it runs, as it does the directory itself. It is in /var/tmp where /tmp is
// memory (Debian 13, Ubuntu 24.10, Fedora, Amazon Linux 2023), which checkpoints would fill.
// The next `connect` or `end` on this machine cleans up after a daemon that was killed, mounts and
// processes included. It trusts nothing there before it knows that this user owns it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/id.h"

namespace skyward::agent {

struct DaemonId {
  std::string pool;  // job id
  NodeId node;
  std::uint32_t life = 1;  // counts the machines that have been this node

  std::string name() const;  // "<pool>.<node>.<life>."
};

// Before the first frame, the command's standard output carries lines that begin with this word:
// "connected" (frames follow), "gone" (there is no daemon, and it may not start one), "busy" and a
// text (retry), "error" and a text (retrying is useless).
inline constexpr const char* kEntryWord = "skyward-agent: ";

// The directory of this user, /tmp/skyward-<uid> or /var/tmp/skyward-<uid>: the root of the two
// below.
std::string user_root();

// Connects to the daemon, and returns when the daemon has let go of the streams. If there is no
// daemon, `start` starts one; before that it ends the `former` ones: daemons of the same pool that
// were lost, perhaps while this machine was unreachable, and may still run here. Returns the exit
// code. In the process that became the daemon, it returns the daemon's.
int connect(const std::string& root, const DaemonId& daemon, bool start,
            const std::vector<DaemonId>& former = {});

// Ends the daemons on this machine whose names have this prefix, and every process below them, even
// if the daemon itself was killed. Returns the exit code: 0 also if there was none.
int end_daemons(const std::string& root, const std::string& prefix);

}  // namespace skyward::agent
