#pragma once

// How the scripts that set up environments write them through to the disk.

#include <string_view>

namespace skyward {

// A function for bash. Call it before a name says that files are complete: a power cut must not
// leave them without their contents.
inline constexpr std::string_view kToDisk = R"bash(
to_disk() {
  if command -v sync >/dev/null; then sync -f -- "$1" 2>/dev/null || sync || true; fi
}
)bash";

}  // namespace skyward
