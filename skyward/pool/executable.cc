#include "skyward/pool/executable.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "skyward/io/own_process.h"

#ifndef SKYWARD_AGENT_DEFAULT
#define SKYWARD_AGENT_DEFAULT ""
#endif
#ifndef SKYWARD_AGENT_INSTALLED
#define SKYWARD_AGENT_INSTALLED ""
#endif

namespace skyward {

namespace fs = std::filesystem;

namespace {

std::string& package_agent() {
  static auto* const path = new std::string;  // read until the program ends
  return *path;
}

}  // namespace

void note_agent(std::string path) { package_agent() = std::move(path); }

Result<std::string> this_executable() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    return fail(ErrorKind::unsupported,
                "cannot tell which executable this program is: /proc/self/exe: " + error.message(),
                "workers are started from the same executable; mount /proc");
  }
  // The path that this leads to has another file when the program is built again. But programs that
  // have changed their user or have capabilities may not be looked into, not even by their
  // children.
  if (!io::lets_others_look() && !path.native().ends_with(" (deleted)")) return path.native();
  return "/proc" / fs::read_symlink("/proc/self") / "exe";
}

Result<std::string> find_agent() {
  const auto is_program = [](const fs::path& path) {
    std::error_code none;
    const fs::file_status status = fs::status(path, none);
    return fs::is_regular_file(status) &&
           (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
  };
  if (const char* named = std::getenv("SKYWARD_AGENT"); named != nullptr && *named != '\0') {
    if (is_program(named)) return fs::absolute(named).native();
    return fail(ErrorKind::invalid, std::string("SKYWARD_AGENT is not a program: ") + named,
                "point it at the skyward-agent binary, or unset it");
  }
  std::vector<fs::path> places;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    places.push_back(self.parent_path() / "skyward-agent");
    places.push_back(self.parent_path().parent_path() / "libexec" / "skyward-agent");
  }
  const std::string package = package_agent();
  constexpr std::string_view kBuilt = SKYWARD_AGENT_DEFAULT;
  constexpr std::string_view kInstalled = SKYWARD_AGENT_INSTALLED;
  for (const std::string_view known : {std::string_view(package), kBuilt, kInstalled}) {
    if (!known.empty()) places.emplace_back(known);
  }
  std::string looked;
  for (const fs::path& place : places) {
    if (is_program(place)) return place.native();
    looked += "\n  " + place.native();
  }
  return fail(ErrorKind::invalid, "skyward-agent was not found; Skyward looked at" + looked,
              "put it there, or set SKYWARD_AGENT to the binary; it is built and installed with "
              "Skyward's libraries");
}

std::string find_record_root() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    return std::string(state) + "/skyward";
  }
  const std::string home = io::home_directory();
  return home.starts_with('/') ? home + "/.local/state/skyward" : std::string();
}

}  // namespace skyward
