#pragma once

// The side of a C++ program that runs tasks. A pool's workers are processes of the program's own
// executable, so main() must hand them over before it does anything else:
//
//   int main(int argc, char** argv) {
//     sky::init(argc, argv);

namespace skyward {

// In a process started as a worker: runs tasks until the pool closes, and never returns. In any
// other: sees to it that pools which are open when the program ends are closed (program_end.h).
void init(int argc, char** argv);

// Inside a task: true once the caller asked for its cancellation. A long task that looks at it now
// and then can end in order; one that does not is ended by force two seconds after the request. Any
// thread; outside a task always false.
bool cancelled();

// Throws CancelledError when cancelled().
void throw_if_cancelled();

// For pools. Throws ConfigurationError when init() has not been called; a process that was started
// as a worker it ends, with the same text.
void require_init();

}  // namespace skyward
