#pragma once

// A process as /proc/N/stat shows it.

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace skyward::io {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';
  std::uint64_t started = 0;  // in ticks since boot; pid and start time together are unique

  bool is_dead() const { return state == 'Z' || state == 'X'; }
};

// Empty when there is no such process.
std::optional<ProcessEntry> read_process_entry(pid_t pid);

}  // namespace skyward::io
