#include "skyward/spec/volume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/text.h"
#include "skyward/spec/json_text.h"

namespace skyward {

namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::size_t kLongestBucket = 63;  // as S3 has it

bool is_bucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= kLongestBucket && std::ranges::all_of(name, [](char c) {
           return is_lower(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
         });
}

// The system's own, with all that is below them.
constexpr std::string_view kSystem[] = {"/bin",   "/boot",  "/dev",    "/etc",     "/lib",
                                        "/lib32", "/lib64", "/libx32", "/proc",    "/run",
                                        "/sbin",  "/sys",   "/usr",    "/var/run", "/opt/skyward"};
// Here the system keeps its things beside the user's, which may be below.
constexpr std::string_view kShared[] = {"/",    "/home",    "/opt",     "/root",   "/tmp",
                                        "/var", "/var/lib", "/var/log", "/var/tmp"};

bool hides_system(const std::vector<std::string>& names) {
  const std::string path = fmt::format("/{}", fmt::join(names, "/"));
  const bool is_home = names.size() == 2 && names.front() == "home";
  const auto is_below = [&](std::string_view one) {
    return (path + "/").starts_with(fmt::format("{}/", one));
  };
  return is_home || std::ranges::find(kShared, path) != std::end(kShared) ||
         std::ranges::any_of(kSystem, is_below);
}

// Whether both name one directory, or the second one inside the first.
bool holds(const std::vector<std::string>& outer, const std::vector<std::string>& inner) {
  return outer.size() <= inner.size() && std::equal(outer.begin(), outer.end(), inner.begin());
}

// `before`: the paths of other volumes, in parts.
Status check_place(const std::vector<std::vector<std::string>>& before,
                   const std::vector<std::string>& path) {
  const auto text = [](const std::vector<std::string>& names) {
    return json_string(fmt::format("/{}", fmt::join(names, "/")));
  };
  for (const std::vector<std::string>& other : before) {
    if (other == path) {
      return fail(ErrorKind::invalid,
                  fmt::format("volume: two volumes are mounted at {}", text(path)),
                  "give each a path of its own");
    }
    const bool is_inside = holds(other, path);
    if (!is_inside && !holds(path, other)) continue;
    return fail(ErrorKind::invalid,
                fmt::format("volume: {} is inside {}, where another volume is mounted",
                            text(is_inside ? path : other), text(is_inside ? other : path)),
                "mount them beside each other, for example at \"/data\" and \"/out\"");
  }
  return {};
}

Status check_path(std::string_view path) {
  const std::vector<std::string> names = items_of(path, '/');
  const bool dotted = std::ranges::any_of(
      names, [](const std::string& name) { return name == "." || name == ".."; });
  const bool odd = std::ranges::any_of(path, [](unsigned char c) { return c < ' '; });
  if (!path.starts_with('/') || dotted || odd) {
    return fail(ErrorKind::invalid,
                fmt::format("volume: mount_path={} is not an absolute path", json_string(path)),
                "write it as \"/data\"");
  }
  if (hides_system(names)) {
    return fail(
        ErrorKind::invalid,
        fmt::format("volume: mount_path={} would hide a part of the system", json_string(path)),
        "choose a separate directory, for example \"/data\"");
  }
  return {};
}

}  // namespace

Result<Volume> parse_volume(std::string mount_path, std::string_view uri) {
  if (!uri.starts_with(kScheme)) {
    return fail(ErrorKind::invalid,
                fmt::format("volume: {} is not the address of a bucket", json_string(uri)),
                "write it as \"s3://bucket/prefix\"");
  }
  const std::string_view rest = uri.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  Volume volume;
  volume.mount_path = std::move(mount_path);
  volume.bucket = std::string(rest.substr(0, slash));
  if (slash < rest.size()) volume.prefix = std::string(rest.substr(slash + 1));
  if (const Status status = validate(std::vector{volume}); !status) return fail(status);
  return volume;
}

Status validate(const std::vector<Volume>& volumes) {
  std::vector<std::vector<std::string>> paths;
  for (const Volume& volume : volumes) {
    if (Status status = check_path(volume.mount_path); !status) return status;
    std::vector<std::string> path = items_of(volume.mount_path, '/');
    if (Status status = check_place(paths, path); !status) return status;
    paths.push_back(std::move(path));
    if (!volume.mount_commands.empty()) continue;  // the user's own kind
    if (!is_bucket(volume.bucket)) {
      return fail(
          ErrorKind::invalid,
          fmt::format("volume: bucket={} is not a valid bucket name", json_string(volume.bucket)),
          "3 to 63 lower-case letters, digits, '-', '.' and '_'");
    }
    if (volume.prefix.starts_with('/')) {
      return fail(ErrorKind::invalid,
                  fmt::format("volume: prefix={} starts with a slash", json_string(volume.prefix)),
                  "object names do not; write it as \"datasets/\"");
    }
  }
  return {};
}

}  // namespace skyward
