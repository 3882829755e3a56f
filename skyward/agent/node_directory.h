#pragma once

// The directory of a daemon (agent/connect.h), and the clean-up of what a daemon leaves behind. The
// daemon does it when it exits; if it was killed, the next daemon or command on this machine does.
// These functions block.

#include <string>

#include "skyward/base/error.h"

namespace skyward::agent {

// Every process below a daemon has the daemon's name ("<pool>.<node>.<life>.") in kNodeVariable,
// and workers and their processes also in kWorkVariable, unless a process cleared its environment.
inline constexpr const char* kNodeVariable = "SKYWARD_NODE";
inline constexpr const char* kWorkVariable = "SKYWARD_WORK";
// The directory. The scripts that mount and unmount volumes note there what they mounted.
inline constexpr const char* kDirectoryVariable = "SKYWARD_NODE_DIRECTORY";

// The daemon's name: the last part of the path.
std::string name_of(const std::string& directory);

// Stores the script that unmounts the volumes, for the case that this process is killed.
void keep_end_script(const std::string& directory, const std::string& script);
bool has_end_script(const std::string& directory);

// Kills what the workers started, which would keep the volumes busy, runs the stored script and
// removes it, so that it runs once. Fails if the volumes are not known to be unmounted.
Status release_volumes(const std::string& directory);

// The same for a daemon that has exited; also kills everything that it started.
void end_left_behind(const std::string& directory);

}  // namespace skyward::agent
