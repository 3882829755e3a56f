#pragma once

// TCP between machines that know each other's addresses. Addresses are numeric ("10.0.0.5",
// "fd00::5"): names are resolved elsewhere.

#include <cstdint>
#include <optional>
#include <string>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

struct TcpListener {
  FileDescriptor socket;  // non-blocking; accept_next() of unix_socket.h takes from it
  std::uint16_t port = 0;
};

// Listens at this address of this machine; port 0 is one that the kernel chooses. Fails with
// `invalid` if it is not an address, with `unsupported` if the machine does not have it, and with
// `unavailable` if somebody else uses the port.
Result<TcpListener> listen_tcp(const std::string& address, std::uint16_t port = 0);

// A non-blocking socket that is connecting: writable when it has connected or failed.
Result<FileDescriptor> dial_tcp(const std::string& address, std::uint16_t port);

// Whether the kernel has a route to anywhere: to an address that is no machine's (RFC 5737, 3849).
// Sends nothing. False on a computer whose network reaches its neighbours alone.
bool has_network();

// The 4 or 16 bytes of an address; empty if it is none. And the text of such bytes.
std::optional<Bytes> address_bytes(const std::string& address);
std::string address_text(ByteView bytes);

}  // namespace skyward::io
