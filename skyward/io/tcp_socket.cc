#include "skyward/io/tcp_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace skyward::io {
namespace {

constexpr int kBacklog = 128;

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

std::optional<SocketAddress> place_of(const std::string& address, std::uint16_t port) {
  SocketAddress place;
  sockaddr_in four{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1) {
    std::memcpy(&place.bytes, &four, sizeof four);
    place.size = sizeof four;
  } else if (::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1) {
    std::memcpy(&place.bytes, &six, sizeof six);
    place.size = sizeof six;
  } else {
    return std::nullopt;
  }
  return place;
}

std::unexpected<Error> no_address(const std::string& address) {
  return fail(ErrorKind::invalid, fmt::format("'{}' is not a network address", address));
}

FileDescriptor make_socket(const SocketAddress& place, int type = SOCK_STREAM) {
  return FileDescriptor(::socket(place.bytes.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool has_route(const std::string& address) {
  const auto place = place_of(address, 9);
  const FileDescriptor socket = make_socket(*place, SOCK_DGRAM);
  return socket && ::connect(socket.get(), place->generic(), place->size) == 0;
}

}  // namespace

Result<TcpListener> listen_tcp(const std::string& address, std::uint16_t port) {
  const auto place = place_of(address, port);
  if (!place) return no_address(address);
  FileDescriptor socket = make_socket(*place);
  SocketAddress bound;
  bound.size = sizeof bound.bytes;
  const int on = 1;  // whoever is accepted inherits it
  if (socket) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A port that connections of the past still hold is free to listen at.
  if (socket && port != 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket || ::bind(socket.get(), place->generic(), place->size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.bytes), &bound.size) != 0) {
    const int error = errno;
    return fail(error == EADDRNOTAVAIL ? ErrorKind::unsupported : ErrorKind::unavailable,
                fmt::format("cannot listen at {}{}: {}", address,
                            port == 0 ? "" : fmt::format(":{}", port), errno_text(error)));
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &bound.bytes, sizeof six);  // the port is at one place in both families
  return TcpListener{std::move(socket), ntohs(six.sin6_port)};
}

Result<FileDescriptor> dial_tcp(const std::string& address, std::uint16_t port) {
  const auto place = place_of(address, port);
  if (!place) return no_address(address);
  FileDescriptor socket = make_socket(*place);
  const int on = 1;
  if (socket) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!socket ||
      (::connect(socket.get(), place->generic(), place->size) != 0 && errno != EINPROGRESS)) {
    return fail(ErrorKind::unavailable,
                fmt::format("cannot reach {}:{}: {}", address, port, errno_text(errno)));
  }
  return socket;
}

bool has_network() { return has_route("192.0.2.1") || has_route("2001:db8::1"); }

std::optional<Bytes> address_bytes(const std::string& address) {
  Bytes bytes(sizeof(in6_addr));
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(sizeof(in_addr));
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return bytes;
  return std::nullopt;
}

std::string address_text(ByteView bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  ::inet_ntop(family, bytes.data(), text, sizeof text);
  return text;
}

}  // namespace skyward::io
