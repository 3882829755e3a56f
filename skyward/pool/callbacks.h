#pragma once

// Where the program goes on when a call is done: callbacks of futures and coroutines that await
// them. One thread of this process runs them all, one after the other. The engine's thread, which
// learns of the answer, must not: a callback may throw, close its pool or end the program.

#include <functional>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"

namespace skyward {

// Starts the thread, before anything is added. Throws std::system_error when the system has no more
// threads.
void start_callbacks();

// Runs `callback` there, in the order of these calls. An exception that leaves it is reported on
// stderr. Any thread; does not block.
void call_back(std::function<void()> callback);

bool is_callback_thread();

// Waits until all that were added before have returned, or the limit is over; returns whether they
// have. On the callbacks' own thread it does not wait.
bool wait_for_callbacks(Duration limit = kForever);

}  // namespace skyward
