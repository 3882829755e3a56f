#include "skyward/io/unix_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/io/passed_descriptors.h"

namespace skyward::io {

namespace {

constexpr int kUnixBacklog = 16;

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

FileDescriptor make_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// For connect(), which otherwise waits for ever while the listener's backlog is full; later for
// writes, where the socket blocks. Zero: no limit.
bool limit_wait(int socket, Duration patience) {
  const auto micros = std::chrono::ceil<std::chrono::microseconds>(patience);
  const timeval limit{.tv_sec = micros / std::chrono::seconds(1),
                      .tv_usec = micros.count() % 1'000'000};
  return ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0;
}

// SO_PEERCRED names the user who called listen().
bool is_served_by_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

// A message of one byte, and room for the descriptors beside it.
struct Passing {
  std::byte byte{};
  iovec piece{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPassed * sizeof(int))> control{};
  msghdr message{};

  Passing() {
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
};

}  // namespace

Result<FileDescriptor> listen_at(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot create a socket at {}: its path has {} bytes; the limit is {}",
                            path, path.size(), sizeof(sockaddr_un::sun_path) - 1),
                "choose a directory with a shorter path");
  }
  FileDescriptor socket = make_socket();
  ::unlink(path.c_str());
  if (!socket || ::bind(socket.get(), generic(*address), sizeof *address) != 0 ||
      ::listen(socket.get(), kUnixBacklog) != 0) {
    return fail(ErrorKind::unavailable,
                fmt::format("cannot listen at {}: {}", path, errno_text(errno)),
                "check the permissions and free space there");
  }
  if (const Status changed = set_non_blocking(socket.get(), true); !changed) return fail(changed);
  return socket;
}

std::optional<FileDescriptor> connect_to(const std::string& path, Duration patience) {
  const auto address = address_of(path);
  if (!address) return std::nullopt;
  FileDescriptor socket = make_socket();
  if (!socket || !limit_wait(socket.get(), patience) ||
      ::connect(socket.get(), generic(*address), sizeof *address) != 0 ||
      !limit_wait(socket.get(), {}) || !is_served_by_this_user(socket.get()) ||
      !set_non_blocking(socket.get(), true)) {
    return std::nullopt;
  }
  return socket;
}

std::optional<FileDescriptor> accept_next(int listener) {
  while (true) {
    FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) return socket;
    if (errno != EINTR && errno != ECONNABORTED) return std::nullopt;
  }
}

bool pass_descriptors(int socket, std::span<const int> descriptors) {
  SKYWARD_CHECK(!descriptors.empty() && descriptors.size() <= kMaxPassed);
  Passing passing;
  attach_descriptors(passing.message, descriptors, passing.control.data());
  while (true) {
    const ssize_t sent = ::sendmsg(socket, &passing.message, MSG_NOSIGNAL);
    if (sent >= 0 || errno != EINTR) return sent == 1;
  }
}

std::vector<FileDescriptor> take_descriptors(int socket) {
  Passing passing;
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &passing.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  std::vector<FileDescriptor> taken;
  if (got <= 0) return taken;
  claim_descriptors(passing.message, taken);
  if ((passing.message.msg_flags & MSG_CTRUNC) != 0) taken.clear();
  return taken;
}

void await_close(int socket) {
  std::array<std::byte, 64> ignored;
  while (true) {
    pollfd watched{.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&watched, 1, -1) < 0 && errno != EINTR) return;
    if (const auto count = read_some(socket, ignored); count && *count == 0) return;
  }
}

}  // namespace skyward::io
