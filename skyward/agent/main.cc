// skyward-agent: the daemon of one node. `skyward-agent run` speaks frames (wire/codec.h) on its
// standard input and output, which may be one Unix socket or two pipes. `skyward-agent connect`
// passes them on to a daemon that outlives it (agent/connect.h), `skyward-agent end` ends such
// daemons. `skyward-agent work` is a worker that runs commands (run/run_command.h). `skyward-agent
// meet` and `skyward-agent mpi` are children of distributed calls (mpi/program.h).
// `skyward-agent --version` says what it is.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/agent/connect.h"
#include "skyward/agent/loop.h"
#include "skyward/base/stderr_line.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/own_process.h"
#include "skyward/mpi/program.h"
#include "skyward/run/run_command.h"
#include "skyward/spec/limits.h"
#include "skyward/worker/worker.h"

namespace {

using Words = std::vector<std::string_view>;

int usage() {
  std::fputs(
      "usage: skyward-agent run\n"
      "       skyward-agent connect --pool ID --node NUMBER --life NUMBER\n"
      "                             [--resume | --former NODE.LIFE,...]\n"
      "       skyward-agent end --pool ID [--node NUMBER --life NUMBER]\n"
      "       skyward-agent work [PYTHON]\n"
      "       skyward-agent meet | mpi\n"
      "       skyward-agent --version\n"
      "Started by Skyward on each node; speaks its protocol on standard input and output.\n",
      stderr);
  return 2;
}

int run() {
  auto streams = skyward::io::take_standard_streams();
  if (!streams) {
    skyward::write_stderr_line("skyward-agent: " + streams.error().message);
    return 2;
  }
  skyward::io::ignore_write_signals();
  skyward::io::ignore_ending_signals();  // the process that started it decides (agent/loop.h)
  // A crashed function must not fill the disk; its stack is in the task's output.
  skyward::io::forbid_core_files();
  skyward::io::allow_many_files();
  return skyward::agent::AgentLoop(std::move(streams->read), std::move(streams->write)).run();
}

// Returns only if no agent has started it.
int work(std::string_view python) {
  skyward::run::register_run_functions(std::string(python));
  skyward::run_if_worker();
  return usage();
}

// The word after `name`.
std::optional<std::string_view> value_of(const Words& words, std::string_view name) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == name) return words[i + 1];
  }
  return std::nullopt;
}

// It becomes part of a path.
bool is_pool_name(std::string_view text) {
  constexpr std::string_view kAllowed = "0123456789abcdefghijklmnopqrstuvwxyz";
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(kAllowed) == text.npos;
}

std::optional<std::uint32_t> number_of(std::optional<std::string_view> text) {
  std::uint32_t number = 0;
  if (!text) return std::nullopt;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text->data() + text->size()) return std::nullopt;
  return number;
}

std::optional<skyward::agent::DaemonId> daemon_of(const Words& words) {
  const auto pool = value_of(words, "--pool");
  const auto node = number_of(value_of(words, "--node"));
  const auto life = number_of(value_of(words, "--life"));
  if (!pool || !node || !life || !is_pool_name(*pool)) return std::nullopt;
  return skyward::agent::DaemonId{std::string(*pool), skyward::NodeId{*node}, *life};
}

// "NODE.LIFE,NODE.LIFE", of the same pool.
std::optional<std::vector<skyward::agent::DaemonId>> daemons_of(const std::string& pool,
                                                                std::string_view text) {
  std::vector<skyward::agent::DaemonId> daemons;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t dot = std::min(item.find('.'), item.size());
    const auto node = number_of(item.substr(0, dot));
    const auto life = number_of(item.substr(std::min(dot + 1, item.size())));
    if (!node || !life) return std::nullopt;
    daemons.push_back({pool, skyward::NodeId{*node}, *life});
  }
  return daemons;
}

int connect(const skyward::agent::DaemonId& daemon, const Words& options) {
  const std::string root = skyward::agent::user_root();
  if (options.empty()) return skyward::agent::connect(root, daemon, true);
  if (options == Words{"--resume"}) return skyward::agent::connect(root, daemon, false);
  const auto former = daemons_of(daemon.pool, value_of(options, "--former").value_or("?"));
  if (options.size() != 2 || !former) return usage();
  return skyward::agent::connect(root, daemon, true, *former);
}

}  // namespace

int main(int count, char** arguments) {
  skyward::io::keep_exit_codes();
  const Words words(arguments + 1, arguments + count);
  const std::string_view command = words.empty() ? "" : words.front();
  if (command == "run" && words.size() == 1) return run();
  if (command == "work" && words.size() <= 2) return work(words.size() == 2 ? words[1] : "");
  if (command == "meet" && words.size() == 1) return skyward::mpi::run_meeting();
  if (command == "mpi" && words.size() == 1) return skyward::mpi::run_world();
  constexpr std::size_t kDaemonWords = 7;
  const auto daemon = daemon_of(words);
  if (command == "connect" && daemon && words.size() >= kDaemonWords) {
    return connect(*daemon, Words(words.begin() + kDaemonWords, words.end()));
  }
  if (command == "end" && daemon && words.size() == kDaemonWords) {
    return skyward::agent::end_daemons(skyward::agent::user_root(), daemon->name());
  }
  if (command == "end" && words.size() == 3) {
    const auto pool = value_of(words, "--pool");
    if (pool && is_pool_name(*pool)) {
      return skyward::agent::end_daemons(skyward::agent::user_root(), std::string(*pool) + ".");
    }
  }
  if (command == "--version") {
    std::printf("skyward-agent %s protocol %u\n", SKYWARD_VERSION, skyward::kProtocolVersion);
    return 0;
  }
  return usage();
}
