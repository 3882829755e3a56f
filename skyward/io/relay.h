#pragma once

// Copies bytes between this process's standard streams and a socket, both ways, until it is over:
// what stands between a command such as ssh and a daemon of the same machine.

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// Blocks. Returns when the socket has ended and its last bytes are written, when nobody reads
// `out` any more, or, after the end of `in` (which the socket is told), when the socket says
// nothing for `patience`. All three non-blocking.
void relay(FileDescriptor in, FileDescriptor out, FileDescriptor socket, Duration patience);

}  // namespace skyward::io
