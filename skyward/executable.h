#pragma once

// Where the programs are that a C++ pool starts: this very executable, and skyward-agent.

#include <string>

#include "skyward/base/error.h"

namespace skyward {

// A path that starts this very executable, also after the file was replaced by a newer build.
Result<std::string> this_executable();

// The agent: $SKYWARD_AGENT, else beside this executable, else in ../libexec, else where it was
// built or installed. Fails with `invalid`, naming the places.
Result<std::string> find_agent();

}  // namespace skyward
