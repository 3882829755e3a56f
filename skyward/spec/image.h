#pragma once

// The declared environment of a node: what is installed before the first task runs.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward {

// A package index that serves the packages listed here and no others.
struct PipIndex {
  std::string url;
  std::vector<std::string> packages;  // names, as in Image::pip but without versions or extras

  bool operator==(const PipIndex&) const = default;
};

struct Image {
  // "auto" or empty is resolved to the client's minor version by the face.
  std::string python = "3.13";
  std::vector<std::string> pip{};
  std::optional<std::string> pip_extra_index_url{};  // may serve any package
  std::vector<PipIndex> pip_indexes{};
  std::vector<std::string> apt{};
  std::map<std::string, std::string> env{};

  bool operator==(const Image&) const = default;

  // First 12 hex digits of the SHA-256 of the canonical JSON text: keys apt, env, pip,
  // pip_extra_index_url, pip_indexes (if there are any), python; lists sorted; the separators ", "
  // and ": "; non-ASCII as \uXXXX. The order of packages does not matter.
  std::string content_hash() const;

  // A bash script that makes a bare Debian or Ubuntu machine into this image, in /opt/skyward; run
  // again, it only checks that everything is there. With a `ttl` (seconds, not negative) the
  // machine is switched off after that time; the timer is armed first of all, so that a script that
  // hangs is covered too. The image must be valid.
  std::string bootstrap(int ttl = 0) const;
};

// Refuses what is no requirement as pip or apt reads it: empty or option-like package names
// ("--index-url"), relative paths, shell syntax, newlines and NULs; and names of environment
// variables that a shell would not take.
Status validate(const Image& image);

// Refuses names of environment variables that a shell would not take and values with a NUL; `where`
// starts the message.
Status validate_environment(const std::map<std::string, std::string>& env, std::string_view where);

// `text` quoted for a POSIX shell, so that it stays one word whatever it holds.
std::string shell_quote(std::string_view text);

}  // namespace skyward
