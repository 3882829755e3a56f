#pragma once

// The programs of others that providers run, here or on a host that ssh reaches: how they are
// found, repeated and reached.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/process.h"
#include "skyward/provider/rest/api_error.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

using Words = std::vector<std::string>;

// Runs these words with this standard input.
using Runner =
    std::function<Result<io::CommandResult>(const Words&, std::string_view input, Duration)>;

// The clock of deadlines, and what waits by it: for a pause, or up to half of it less.
struct CommandClock {
  std::function<Time()> now;
  std::function<void(Duration)> pause;
};
CommandClock command_clock(const World& world);

// Whether a program of this name is on $PATH.
bool has_program(const World& world, std::string_view name);

// Runs a command once. Returns the error, or nothing on success.
using CommandRun = std::function<std::optional<ApiError>()>;
// Repeats it while the other side is unavailable. Returns the last trouble. One that took longer
// than `most` to fail is not repeated: nobody answers. With `once`, one that may have been obeyed
// is not repeated either.
std::optional<ApiError> repeat_command(const CommandClock& clock, const CommandRun& attempt,
                                       Time deadline, Duration most = Duration::max(),
                                       bool once = false);

// What runs `words` through a command that takes one line for a login shell: {"ssh", "host"}.
Words through(Words login, const Words& words);
// The same for words that take one more: it becomes the end of that line.
Words call_through(const Words& login, const Words& words);

}  // namespace skyward::provider
