#pragma once

// For tests of descriptors: counts the open ones, and reads one to its end.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "skyward/base/time.h"

namespace skyward::io {

inline constexpr Duration kPatience = std::chrono::seconds(30);

inline int count_descriptors() {
  int count = 0;
  for (int number = 0; number < 4096; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) ++count;
  }
  return count;
}

// Reads until the other side closes; fails the test when nothing comes for too long.
inline std::string read_all(int descriptor) {
  std::string text;
  while (true) {
    pollfd watched{.fd = descriptor, .events = POLLIN, .revents = 0};
    if (::poll(&watched, 1, 30'000) != 1) {
      ADD_FAILURE() << "nothing came; so far: " << text;
      return text;
    }
    char buffer[65536];
    const ssize_t size = ::read(descriptor, buffer, sizeof buffer);
    if (size > 0) {
      text.append(buffer, static_cast<std::size_t>(size));
    } else if (size == 0 || errno != EAGAIN) {
      return text;
    }
  }
}

// One line, without its end; what has come of it after a minute.
inline std::string read_line(int descriptor) {
  std::string text;
  char byte = 0;
  pollfd watched{.fd = descriptor, .events = POLLIN, .revents = 0};
  while (::poll(&watched, 1, 60'000) == 1 && ::read(descriptor, &byte, 1) == 1 && byte != '\n') {
    text += byte;
  }
  return text;
}

}  // namespace skyward::io
