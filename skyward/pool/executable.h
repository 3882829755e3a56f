#pragma once

// Where things are for a C++ pool: this very executable, skyward-agent, the log files.

#include <string>

#include "skyward/base/error.h"

namespace skyward {

// A path that starts this very executable, also after the file was replaced by a newer build.
Result<std::string> this_executable();

// The agent: $SKYWARD_AGENT, else beside this executable, else in ../libexec, else where it was
// built or installed. Fails with `invalid`, naming the places.
Result<std::string> find_agent();

// Where the log files of pools are kept (pool_record.h): $XDG_STATE_HOME/skyward, else
// ~/.local/state/skyward. Empty where there is no home.
std::string find_record_root();

}  // namespace skyward
