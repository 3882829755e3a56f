#include "skyward/io/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <vector>

namespace skyward::io {

namespace {

constexpr std::size_t kRelayBytes = std::size_t{256} << 10;

// One way: bytes read and not yet written.
class Direction {
 public:
  Direction() : buffer_(kRelayBytes) {}

  bool wants_read() const { return !ended_ && begin_ == end_; }
  bool wants_write() const { return begin_ < end_; }
  // Everything that came has been written, and no more will come.
  bool finished() const { return ended_ && begin_ == end_; }

  void read(int from) {
    const ssize_t count = ::read(from, buffer_.data(), buffer_.size());
    if (count > 0) {
      begin_ = 0;
      end_ = static_cast<std::size_t>(count);
    } else if (count == 0 || !is_passing(errno)) {
      ended_ = true;
    }
  }

  // False when the reader has gone.
  bool write(int to) {
    const ssize_t count = ::write(to, buffer_.data() + begin_, end_ - begin_);
    if (count < 0) return is_passing(errno);
    begin_ += static_cast<std::size_t>(count);
    return true;
  }

 private:
  static bool is_passing(int error) {
    return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
  }

  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool ended_ = false;
};

short events_of(bool read, bool write) {
  return static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0));
}

// poll() reports the end of a descriptor over and over, even with no events asked for: it is left
// out.
pollfd entry(int descriptor, bool read, bool write) {
  return {.fd = read || write ? descriptor : -1, .events = events_of(read, write), .revents = 0};
}

}  // namespace

void relay(FileDescriptor in, FileDescriptor out, FileDescriptor socket, Duration patience) {
  Direction inward;   // in → socket
  Direction outward;  // socket → out
  bool told_end = false;
  const int limit =
      static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience).count());
  while (!outward.finished()) {
    std::array<pollfd, 3> watched = {
        entry(in.get(), inward.wants_read(), false), entry(out.get(), false, outward.wants_write()),
        entry(socket.get(), outward.wants_read(), inward.wants_write())};
    const int ready = ::poll(watched.data(), watched.size(), told_end ? limit : -1);
    if (ready == 0) return;
    if (ready < 0) {
      if (errno == EINTR) continue;
      return;
    }
    const auto is_ready = [&](std::size_t index, short events) {
      return (watched[index].revents & (events | POLLERR | POLLHUP)) != 0;
    };
    if (inward.wants_read() && is_ready(0, POLLIN)) inward.read(in.get());
    if (outward.wants_write() && is_ready(1, POLLOUT) && !outward.write(out.get())) return;
    if (outward.wants_read() && is_ready(2, POLLIN)) outward.read(socket.get());
    if (inward.wants_write() && is_ready(2, POLLOUT) && !inward.write(socket.get())) {
      // The daemon has closed; what it said before is still to be passed on.
      if (!outward.wants_write() && !outward.wants_read()) return;
      if (outward.wants_read()) outward.read(socket.get());
      if (outward.wants_read()) return;
    }
    if (inward.finished() && !told_end) {
      told_end = true;
      ::shutdown(socket.get(), SHUT_WR);
    }
  }
}

}  // namespace skyward::io
