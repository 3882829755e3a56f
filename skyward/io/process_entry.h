#pragma once

// Processes as /proc/N/stat shows them, and descriptors that name them for good.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "skyward/io/file_descriptor.h"

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

// Of every process that /proc shows.
std::vector<pid_t> process_ids();

// A descriptor that names the process, whatever becomes of its number, and is readable when it has
// exited. Empty where there is none (errno: ESRCH), or where the kernel has no such descriptors.
FileDescriptor open_process(pid_t pid);
// False, and errno, when the signal was not sent.
bool signal_process(const FileDescriptor& process, int signal);

}  // namespace skyward::io
