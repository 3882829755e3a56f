#pragma once

// Unix stream sockets at a path: how a program finds a daemon of the same user on the same machine.
// The directory's permissions decide who may connect.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// A listening socket at `path`, non-blocking. Replaces a socket that is there already, so the
// caller must know that nobody serves it any more. Fails with `invalid` when the path is too long
// for a socket (107 bytes).
Result<FileDescriptor> listen_at(const std::string& path);

// Connects to the socket at `path`; the result is non-blocking. Empty when nobody listens there,
// another user does, or so many connections wait there for `patience` (more than zero) that no more
// can.
std::optional<FileDescriptor> connect_to(const std::string& path, Duration patience);

// The next connection that waits at a listening socket, non-blocking; empty if there is none.
std::optional<FileDescriptor> accept_next(int listener);

// As many descriptors as one pass_descriptors() takes.
inline constexpr std::size_t kMaxPassed = 2;

// Gives the other end of a socket, on which nothing else is under way, these descriptors. False if
// it has gone.
bool pass_descriptors(int socket, std::span<const int> descriptors);
// Takes what one such call gave, without waiting. Empty when the other end has gone, or has sent
// anything else.
std::vector<FileDescriptor> take_descriptors(int socket);

// Blocks until the other end has closed the socket.
void await_close(int socket);

}  // namespace skyward::io
