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
  int threads = 0;            // a first thread that has exited counts until the last one has
  std::uint64_t started = 0;  // in ticks since boot; pid and start time together are unique

  // Its first thread may exit before the others, which still hold the files and their locks.
  bool is_dead() const { return (state == 'Z' && threads <= 1) || state == 'X'; }
};

// Empty when there is no such process.
std::optional<ProcessEntry> read_process_entry(pid_t pid);

}  // namespace skyward::io
