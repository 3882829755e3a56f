#pragma once

// The command of a run as a child of this process, in a session of its own. Its output comes in
// pieces; while a callback is busy, the command waits when its pipes are full.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/io/process.h"

namespace skyward::run {

struct CommandEvents {
  std::function<void(int stream, std::string_view bytes)> on_output;  // 1 or 2
  std::function<void(pid_t)> on_start;
  std::function<void()> poll;  // about ten times a second; may throw, as all of these
};

// Runs it to its end, and what it left behind in its session with it. If a callback throws, the
// command is killed first.
Result<io::ExitStatus> run_to_end(const io::SpawnOptions& options, const CommandEvents& events);

}  // namespace skyward::run
