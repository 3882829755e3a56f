#include "skyward/agent/node_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "skyward/base/stderr_line.h"
#include "skyward/base/text.h"
#include "skyward/io/daemon.h"
#include "skyward/io/file.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/process.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

std::filesystem::path script_of(const std::string& directory) {
  return std::filesystem::path(directory) / "end";
}

}  // namespace

std::string name_of(const std::string& directory) {
  return std::filesystem::path(directory).filename().string();
}

void keep_end_script(const std::string& directory, const std::string& script) {
  if (const Status kept = io::write_private_file(script_of(directory), script); !kept) {
    write_stderr_line("skyward-agent: " + kept.error().message);
  }
}

bool has_end_script(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(script_of(directory), error);
}

Status release_volumes(const std::string& directory) {
  if (!has_end_script(directory)) return {};
  io::kill_marked(kWorkVariable, {name_of(directory)}, kKillTimeout);
  io::SpawnOptions options;
  options.command = {"bash", script_of(directory)};
  options.environment = {{kDirectoryVariable, directory}};
  options.directory = directory;
  options.new_session = true;
  const auto result = io::run_command(options, kUnmountTimeout);
  std::error_code error;
  std::filesystem::remove(script_of(directory), error);
  if (result && result->status.code == 0 && result->status.signal == 0) return {};
  std::string why = "the volumes were not unmounted: ";
  if (result) {
    why += fmt::format("{}: {}", result->status.describe(),
                       fmt::join(items_of(result->err, '\n'), "; "));
  } else if (result.error().kind == ErrorKind::timeout) {
    why = fmt::format("stopped waiting for the volumes after {:g} s", seconds(kUnmountTimeout));
  } else {
    why += result.error().message;
  }
  return fail(ErrorKind::unavailable,
              why + "; files that were still being written may be incomplete or missing", {});
}

void end_left_behind(const std::string& directory) {
  if (const Status released = release_volumes(directory); !released) {
    write_stderr_line("skyward-agent: " + released.error().message);
  }
  io::kill_marked(kNodeVariable, {name_of(directory)}, kKillTimeout);
}

}  // namespace skyward::agent
