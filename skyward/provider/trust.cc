#include "skyward/provider/trust.h"

#include <fmt/format.h>

#include "skyward/base/hash.h"

namespace skyward::provider {

namespace {

std::string hash_of(std::string_view text) { return to_hex(sha256(as_bytes(text))); }

// "HASH PATH", and nothing after it: a path may hold anything but a zero.
std::string record_of(const World& world, const std::string& path, std::string_view text,
                      const std::vector<std::string>& named) {
  const std::string own = home_directory(world) + "/.ssh/";
  std::string all(text);
  for (const std::string& file : named) {
    if (file.starts_with(own)) continue;  // the user's, who changes it at will
    const auto content = world.read_file(file);
    all += fmt::format("\n{} {}", hash_of(file), content ? hash_of(*content) : "none");
  }
  return fmt::format("{} {}", hash_of(all), path);
}

}  // namespace

std::string trust_directory(const World& world) {
  const std::string state = state_directory(world);
  return state.empty() ? state : state + "/trusted";
}

std::string trust_record(const World& world, const std::string& path) {
  const std::string directory = trust_directory(world);
  return directory.empty() ? directory : fmt::format("{}/{}", directory, hash_of(path));
}

std::string path_in_trust_record(std::string_view record) {
  const std::size_t space = record.find(' ');
  return space == std::string_view::npos ? std::string() : std::string(record.substr(space + 1));
}

Trust trust_in(const World& world, const std::string& path, std::string_view text,
               const std::vector<std::string>& named) {
  const std::string file = trust_record(world, path);
  const auto record = file.empty() ? fail(ErrorKind::invalid, "") : world.read_safely(file, false);
  if (!record || path_in_trust_record(*record) != path) return Trust::none;
  return *record == record_of(world, path, text, named) ? Trust::given : Trust::outdated;
}

Status trust_file(const World& world, const std::string& path, std::string_view text,
                  const std::vector<std::string>& named) {
  const std::string file = trust_record(world, path);
  if (file.empty()) {
    return fail(ErrorKind::invalid, "there is no place to store which files are trusted",
                "set HOME or XDG_STATE_HOME");
  }
  return world.write_file(file, record_of(world, path, text, named));
}

}  // namespace skyward::provider
