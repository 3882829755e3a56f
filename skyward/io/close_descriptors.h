#pragma once

// Closes ranges of descriptors. Calls nothing but the kernel, so that a child which shares its
// parent's memory may use it.

#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

// For functions that run in a child before its exec, on memory that is still the parent's.
#define SKYWARD_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

namespace skyward::io {

// The highest number that there can be.
inline constexpr unsigned kLastDescriptor = UINT_MAX;

// Closes all descriptors from `first` to `last`. Without close_range (Linux before 5.9, or a filter
// of system calls that does not know it), it closes those up to 65535 one by one.
SKYWARD_IN_CHILD inline void close_descriptors(unsigned first, unsigned last) {
  constexpr unsigned kHighest = 65536;
  if (first > last || ::syscall(SYS_close_range, first, last, 0U) == 0) return;
  for (unsigned number = first; number <= last && number < kHighest; ++number) {
    ::syscall(SYS_close, number);
  }
}

}  // namespace skyward::io
