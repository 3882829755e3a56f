#pragma once

// The side of a C++ program that runs tasks: what a task may ask about itself, and what makes a
// process a worker.

namespace skyward {

// Inside a task: true once the caller asked for its cancellation. A long task that looks at it now
// and then can end in order; one that does not is ended by force two seconds after the request. Any
// thread; outside a task always false.
bool cancelled();

// Throws CancelledError when cancelled().
void throw_if_cancelled();

// For sky::init. In a process started as a worker it runs tasks until the pool closes, and never
// returns; in any other it does nothing.
void run_if_worker();

}  // namespace skyward
