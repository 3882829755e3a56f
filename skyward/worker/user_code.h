#pragma once

// What surrounds the user's function, be it in a worker or in a rank of MPI.

#include <string>

namespace skyward {

// "std::invalid_argument" for the exception in flight.
std::string thrown_name();

// Writes out what the C++ streams still hold. Not here: a program without such streams, as the agent
// is, is half a megabyte smaller. Call it before tasks run.
void set_stream_flush(void (*flush)());
// What the function has printed leaves this process.
void flush_output();

}  // namespace skyward
