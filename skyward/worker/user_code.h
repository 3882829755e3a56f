#pragma once

// What surrounds the user's function, be it in a worker or in a rank of MPI.

#include <string>

namespace skyward {

// "std::invalid_argument" for the exception in flight.
std::string thrown_name();

// What the function has printed leaves this process.
void flush_output();

}  // namespace skyward
