#include "skyward/agent/node_directory.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "skyward/io/daemon.h"
#include "skyward/io/file.h"
#include "skyward/io/process.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

std::filesystem::path script_of(const std::string& nest) {
  return std::filesystem::path(nest) / "end";
}

}  // namespace

std::string name_of(const std::string& nest) {
  return std::filesystem::path(nest).filename().string();
}

void keep_end_script(const std::string& nest, const std::string& script) {
  if (const Status kept = io::write_private_file(script_of(nest), script); !kept) {
    fmt::print(stderr, "skyward-agent: {}\n", kept.error().message);
  }
}

bool has_end_script(const std::string& nest) {
  std::error_code error;
  return std::filesystem::exists(script_of(nest), error);
}

void release_volumes(const std::string& nest) {
  if (!has_end_script(nest)) return;
  io::kill_marked(kWorkVariable, {name_of(nest)}, kKillTimeout);
  io::SpawnOptions options;
  options.command = {"bash", script_of(nest)};
  options.environment = {{kNestVariable, nest}};
  options.directory = nest;
  options.new_session = true;
  const auto result = io::run_command(options, kUnmountTimeout);
  if (!result || result->status.code != 0 || result->status.signal != 0) {
    fmt::print(stderr, "skyward-agent: the clean-up script failed: {}\n",
               result ? result->status.describe() + ": " + result->err : result.error().message);
  }
  std::error_code error;
  std::filesystem::remove(script_of(nest), error);
}

void end_left_behind(const std::string& nest) {
  release_volumes(nest);
  io::kill_marked(kNodeVariable, {name_of(nest)}, kKillTimeout);
}

}  // namespace skyward::agent
