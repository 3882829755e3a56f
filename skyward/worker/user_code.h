#pragma once

// What surrounds the user's function, be it in a worker or in a rank of MPI.

#include <string>

namespace skyward {

// "std::invalid_argument" for the exception in flight.
std::string thrown_name();

// What writes out what the C++ streams still hold; set before tasks run. It is not here, since the
// agent has no such streams, which make a program half a megabyte larger.
void set_stream_flush(void (*flush)());
// What the function has printed leaves this process. What it wrote to other files stays in their
// buffers.
void flush_output();

}  // namespace skyward
