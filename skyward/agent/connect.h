#pragma once

// How an engine's command finds the daemon of its node: `skyward-agent connect` stands between the
// command's standard streams and the daemon's socket, and starts the daemon when there is none. The
// daemon lives on when the command ends.
//
// Each daemon of a user has a directory of its own, /tmp/skyward-<uid>/nodes/<pool>.<node>.<life>.,
// that only this user can read: `socket`, `log`, and `lock`, which is held for as long as the
// daemon lives. What a killed daemon left behind, mounts and processes included, is ended and
// removed by whoever comes next. Nothing there is looked at, followed or connected to before it is
// known to be this user's own.

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
// "connected" (frames follow), "gone" (no daemon, and none was to be started), "busy" and a text
// (worth another try), "error" and a text (not worth it).
inline constexpr const char* kEntryWord = "skyward-agent: ";

// The directory of this user, /tmp/skyward-<uid>: the root of the two below.
std::string user_root();

// Connects and relays until one side ends. Without `start`, only to a daemon that is there; else
// one is started where there is none, and the `former` ones are ended before: those of the same
// pool that were given up, perhaps while nobody could reach this machine, and may still be at work
// here. Returns the exit code. In the daemon that it has started, it returns that one's.
int connect(const std::string& root, const DaemonId& daemon, bool start,
            const std::vector<DaemonId>& former = {});

// Ends the daemons whose names begin so, on this machine, and every process that was started below
// them, also where the daemon itself was killed. Returns the exit code: 0 also when there was none.
int end_daemons(const std::string& root, const std::string& prefix);

}  // namespace skyward::agent
