#include "skyward/io/file_descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "skyward/io/sigpipe_guard.h"

namespace skyward::io {

namespace {

ErrorKind kind_of(int error) {
  return is_shortage(error) ? ErrorKind::exhausted : ErrorKind::unavailable;
}

}  // namespace

void FileDescriptor::reset() {
  // Not repeated on EINTR: Linux has freed the number by then, and another thread may own it.
  if (const int descriptor = release(); descriptor >= 0) ::close(descriptor);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return fail(kind_of(errno), "cannot create a pipe: " + errno_text(errno),
                "raise the limit of open files (ulimit -n)");
  }
  return Pipe{.read = FileDescriptor(ends[0]), .write = FileDescriptor(ends[1])};
}

Result<SocketPair> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return fail(kind_of(errno), "cannot create a socket pair: " + errno_text(errno),
                "raise the limit of open files (ulimit -n)");
  }
  return SocketPair{.ours = FileDescriptor(ends[0]), .theirs = FileDescriptor(ends[1])};
}

Status set_non_blocking(int descriptor, bool on) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  const int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (flags < 0 || (wanted != flags && ::fcntl(descriptor, F_SETFL, wanted) != 0)) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot make descriptor {} {}: {}", descriptor,
                            on ? "non-blocking" : "blocking", errno_text(errno)));
  }
  return {};
}

Result<FileDescriptor> duplicate(int descriptor) {
  FileDescriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
  if (!copy) {
    return fail(kind_of(errno),
                fmt::format("cannot duplicate descriptor {}: {}", descriptor, errno_text(errno)),
                "raise the limit of open files (ulimit -n)");
  }
  return copy;
}

std::optional<std::size_t> read_some(int descriptor, std::span<std::byte> to) {
  while (true) {
    const ssize_t count = ::read(descriptor, to.data(), to.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) return 0;
  }
}

bool write_some(int descriptor, std::span<const std::byte> from) {
  const SigpipeGuard guard;
  const ssize_t count = ::write(descriptor, from.data(), from.size());
  return count >= 0 && static_cast<std::size_t>(count) == from.size();
}

std::optional<std::size_t> write_part(int descriptor, std::span<const std::byte> from) {
  const SigpipeGuard guard;
  while (true) {
    const ssize_t count = ::write(descriptor, from.data(), from.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return std::nullopt;
  }
}

bool can_write_now(int descriptor) {
  pollfd writable{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&writable, 1, 0) == 1 && (writable.revents & POLLOUT) != 0;
}

bool is_shortage(int error) {
  switch (error) {
    case EAGAIN:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC:
      return true;
    default:
      return false;
  }
}

std::string errno_text(int error) {
  char buffer[128];
  return fmt::format("{} (errno {})", ::strerror_r(error, buffer, sizeof buffer), error);
}

}  // namespace skyward::io
