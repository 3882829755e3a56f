#pragma once

// How much lies in a pipe: what can be read without waiting, and was written before a moment.

#include <sys/ioctl.h>

#include <cstddef>

namespace skyward::io {

inline std::size_t readable_bytes(int pipe) {
  int count = 0;
  return ::ioctl(pipe, FIONREAD, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

}  // namespace skyward::io
