#include "skyward/io/unix_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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

// The kernel noted who it was when it began to listen.
bool is_served_by_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace

Result<FileDescriptor> listen_at(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return fail(ErrorKind::invalid,
                fmt::format("a socket cannot stand at {}: its path has {} bytes, at most {} are "
                            "possible",
                            path, path.size(), sizeof(sockaddr_un::sun_path) - 1),
                "choose a shorter directory");
  }
  FileDescriptor socket = make_socket();
  ::unlink(path.c_str());
  if (!socket || ::bind(socket.get(), generic(*address), sizeof *address) != 0 ||
      ::listen(socket.get(), kUnixBacklog) != 0) {
    return fail(ErrorKind::unavailable,
                fmt::format("cannot listen at {}: {}", path, errno_text(errno)),
                "check the rights and the free space there");
  }
  if (const Status changed = set_non_blocking(socket.get(), true); !changed) return fail(changed);
  return socket;
}

std::optional<FileDescriptor> connect_to(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return std::nullopt;
  FileDescriptor socket = make_socket();
  if (!socket || ::connect(socket.get(), generic(*address), sizeof *address) != 0 ||
      !is_served_by_this_user(socket.get()) || !set_non_blocking(socket.get(), true)) {
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

}  // namespace skyward::io
