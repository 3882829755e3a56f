#pragma once

// The limits that control groups impose on their processes, as in containers: the tightest of the
// groups of this process, of both versions of control groups. `membership` is the file that names
// the group, `root` where the groups are mounted.

#include <cstdint>
#include <optional>
#include <string>

namespace skyward::io {

// Of CPU time, in processors (0.5: half of one); empty without a limit.
std::optional<double> cpu_quota(const std::string& root = "/sys/fs/cgroup",
                                const std::string& membership = "/proc/self/cgroup");

// Of memory, in bytes; empty without a limit.
std::optional<std::uint64_t> memory_limit(const std::string& root = "/sys/fs/cgroup",
                                          const std::string& membership = "/proc/self/cgroup");

// What of that limit is left, in bytes. Files in the kernel's cache count as free, as in its
// MemAvailable.
std::optional<std::uint64_t> memory_room(const std::string& root = "/sys/fs/cgroup",
                                         const std::string& membership = "/proc/self/cgroup");

}  // namespace skyward::io
