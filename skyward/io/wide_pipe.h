#pragma once

// Pipes that hold more than the usual 64 KiB: whoever fills or empties them is woken less often.
// Only for a few: the system limits what all pipes of one user may hold, those of other programs
// too.

#include <fcntl.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>

namespace skyward::io {

// As much as a channel reads at once.
inline constexpr std::size_t kWidePipeBytes = std::size_t{256} << 10;

// How many of them this process widens.
inline constexpr int kMostWidePipes = 64;

// False if the pipe was as wide before, if the system allows no more, and for anything but a pipe.
inline bool widen_pipe(int end) {
  static std::atomic<int> widened{0};
  constexpr int kWide{kWidePipeBytes};
  const int size = ::fcntl(end, F_GETPIPE_SZ);
  if (size <= 0 || size >= kWide || widened.fetch_add(1) >= kMostWidePipes) return false;
  return ::fcntl(end, F_SETPIPE_SZ, kWide) >= kWide;
}

// The same for what is written to a socket, as far as the system allows it.
inline void widen_socket(int end) {
  constexpr int kWide{kWidePipeBytes};
  ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kWide, sizeof kWide);
}

}  // namespace skyward::io
