#include "skyward/agent/end_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "skyward/base/stderr_line.h"
#include "skyward/io/process.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

constexpr int kMaxTries = 3;
constexpr Duration kTryPause = std::chrono::seconds(5);

}  // namespace

bool run_end_command(const std::vector<std::string>& command,
                     const std::function<void(Duration)>& pause) {
  io::SpawnOptions options;
  options.command = command;
  for (int tried = 1;; ++tried) {
    const auto result = io::run_command(options, kEndCommandTimeout);
    if (result && result->status.code == 0 && result->status.signal == 0) return true;
    write_stderr_line(fmt::format(
        "skyward-agent: '{}' failed to shut this machine down: {}", fmt::join(command, " "),
        result ? result->status.describe() + ": " + result->err : result.error().message));
    if (tried == kMaxTries) return false;
    pause(kTryPause);
  }
}

}  // namespace skyward::agent
