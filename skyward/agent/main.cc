// skyward-agent: the daemon of one node. `skyward-agent run` speaks frames (wire/codec.h) on its
// standard input and output, which may be one Unix socket or two pipes; `skyward-agent --version`
// says what it is.

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "skyward/agent/loop.h"
#include "skyward/io/own_process.h"
#include "skyward/spec/limits.h"

namespace {

int run() {
  auto streams = skyward::io::take_standard_streams();
  if (!streams) {
    fmt::print(stderr, "skyward-agent: {}\n", streams.error().message);
    return 2;
  }
  skyward::io::ignore_broken_pipes();
  // A crashed function must not fill the disk; its stack is in the task's output.
  skyward::io::forbid_core_files();
  return skyward::agent::Loop(std::move(streams->read), std::move(streams->write)).run();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view command = count == 2 ? arguments[1] : "";
  if (command == "run") return run();
  if (command == "--version") {
    fmt::print("skyward-agent {} protocol {}\n", SKYWARD_VERSION, skyward::kProtocolVersion);
    return 0;
  }
  fmt::print(
      stderr,
      "usage: skyward-agent run | --version\n"
      "Started by Skyward on each node; speaks its protocol on standard input and output.\n");
  return 2;
}
