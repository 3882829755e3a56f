#pragma once

// Copies bytes between this process's standard streams and a socket, both ways, until either ends:
// connects a command such as ssh with a daemon on the same machine.

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// Blocks. Returns when the socket has ended and its last bytes are written, when the reader of
// `out` is gone, or, after the end of `in` (which it passes on to the socket), when the socket has
// been silent for `patience`. All three non-blocking.
void relay(FileDescriptor in, FileDescriptor out, FileDescriptor socket, Duration patience);

}  // namespace skyward::io
