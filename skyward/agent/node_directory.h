#pragma once

// The directory of a daemon (agent/connect.h), and how what a daemon leaves behind is ended: by
// itself at its end, or, where it was killed, by whoever comes next. Blocks.

#include <string>

namespace skyward::agent {

// Every process below a daemon has its name here ("<pool>.<node>.<life>."), unless it cleared its
// environment; and those of its workers, here, too.
inline constexpr const char* kNodeVariable = "SKYWARD_NODE";
inline constexpr const char* kWorkVariable = "SKYWARD_WORK";
// The directory. The scripts that mount volumes, and let them go, note there what they mounted.
inline constexpr const char* kNestVariable = "SKYWARD_NEST";

// The daemon's name: the last part of the path.
std::string name_of(const std::string& nest);

// Keeps the script that lets the volumes go, for an end in which this process has no say.
void keep_end_script(const std::string& nest, const std::string& script);
bool has_end_script(const std::string& nest);

// Kills what the workers started, which would keep the volumes busy, and runs the script that was
// kept. It is forgotten, so that it runs once.
void release_volumes(const std::string& nest);

// The same for a daemon that is no more, and kills all that it has started.
void end_left_behind(const std::string& nest);

}  // namespace skyward::agent
