#pragma once

// What of a pipe can be read without waiting.

#include <poll.h>
#include <sys/ioctl.h>

#include <array>
#include <cstddef>

namespace skyward::io {

// Whether one of them has something to read, or has ended. -1 stands for none.
inline bool is_any_readable(int first, int second) {
  std::array<pollfd, 2> pipes{{{.fd = first, .events = POLLIN, .revents = 0},
                               {.fd = second, .events = POLLIN, .revents = 0}}};
  return ::poll(pipes.data(), pipes.size(), 0) != 0;
}

// In bytes.
inline std::size_t readable_bytes(int pipe) {
  int count = 0;
  return ::ioctl(pipe, FIONREAD, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

}  // namespace skyward::io
