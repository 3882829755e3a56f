#include "skyward/io/polling.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "skyward/io/event_loop.h"

namespace skyward::io {

int poll_until(int descriptor, short events, Time deadline) {
  constexpr Duration kLongest = std::chrono::hours(1);
  while (true) {
    const Duration left = std::clamp(deadline - EventLoop::now(), Duration{}, kLongest);
    const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left);
    pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(whole.count()));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return ready;
    if (ready == 0 && left < kLongest) return 0;
  }
}

}  // namespace skyward::io
