#pragma once

// Storage that tasks see as a directory.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward {

// A bucket of S3 or of a store that speaks its language, or a kind of the user's own that brings
// the shell commands for it.
struct Volume {
  std::string mount_path{};  // absolute
  std::string bucket{};
  std::string prefix{};  // of the objects that are seen, for example "datasets/"
  bool read_only = true;
  // Of the user's own kind: one line of shell each, run as root on the node, in order.
  std::vector<std::string> install_commands{};
  std::vector<std::string> mount_commands{};

  bool operator==(const Volume&) const = default;
};

// "s3://bucket/prefix" at a path.
Result<Volume> parse_volume(std::string mount_path, std::string_view uri);

// Refuses paths that would hide the system, bucket names that no store has, and two volumes at one
// path or one inside the other.
Status validate(const std::vector<Volume>& volumes);

}  // namespace skyward
