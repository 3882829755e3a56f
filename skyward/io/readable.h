#pragma once

// How many bytes of a pipe can be read without waiting.

#include <sys/ioctl.h>

#include <cstddef>

namespace skyward::io {

inline std::size_t readable_bytes(int pipe) {
  int count = 0;
  return ::ioctl(pipe, FIONREAD, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

}  // namespace skyward::io
