#pragma once

// Unix stream sockets that stand at a path: how a program finds a daemon of the same user on the
// same machine. Who may connect is settled by the rights of the directory.

#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// A listening socket at `path`, non-blocking; a socket that stands there already is replaced, so
// the caller must know that nobody serves it any more. Fails with `invalid` when the path is too
// long for a socket (107 bytes).
Result<FileDescriptor> listen_at(const std::string& path);

// Connects to the socket at `path`; the result is non-blocking. Nothing when nobody listens there,
// or somebody else than this user does.
std::optional<FileDescriptor> connect_to(const std::string& path);

// The next connection that waits at a listening socket, non-blocking; nothing without one.
std::optional<FileDescriptor> accept_next(int listener);

}  // namespace skyward::io
