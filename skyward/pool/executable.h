#pragma once

// Paths of a C++ pool: this executable, skyward-agent, the log files.

#include <string>

#include "skyward/base/error.h"

namespace skyward {

// A path that starts this same executable while this process lives, even after a newer build
// replaced the file.
Result<std::string> this_executable();

// The agent: $SKYWARD_AGENT, else beside this executable, else in ../libexec, else in the package
// that this program was built with, else where it was built or installed. Fails with `invalid` and
// lists these places.
Result<std::string> find_agent();
// Where that package has it. For sky::init.
void note_agent(std::string path);

// Where the log files of pools are kept (pool_record.h): $XDG_STATE_HOME/skyward, else
// ~/.local/state/skyward. Empty if there is no home directory.
std::string find_record_root();

}  // namespace skyward
