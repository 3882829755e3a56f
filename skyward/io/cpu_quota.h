#pragma once

// The limit that a control group sets to the CPU time of its processes, as containers have it.

#include <optional>
#include <string>

namespace skyward::io {

// The tightest limit of the groups of this process, in processors (0.5: half of one); empty without
// a limit. Knows version 2 of control groups: `membership` is the file that names the group, `root`
// where the groups are mounted.
std::optional<double> cpu_quota(const std::string& root = "/sys/fs/cgroup",
                                const std::string& membership = "/proc/self/cgroup");

}  // namespace skyward::io
