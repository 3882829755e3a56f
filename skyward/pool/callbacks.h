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

using CallbackOwner = const void*;  // Pool::identity()

// Runs `callback` there, in the order of these calls. An exception that leaves it is reported on
// stderr. Any thread; does not block.
void call_back(CallbackOwner owner, std::function<void()> callback);

// For the threads that call on_event.
void note_events_thread();

// Whether this thread runs callbacks, or calls on_event. Such a thread must not wait for callbacks,
// nor for a thread that closes a pool: the pool may be waiting for this one.
bool runs_callbacks();

// Waits until none of the owner's callbacks waits or runs, or the limit is over; returns whether
// that is so. Where runs_callbacks(), it does not wait.
bool wait_for_callbacks(CallbackOwner owner, Duration limit = kForever);
// The same for all owners.
bool wait_for_all_callbacks(Duration limit);

}  // namespace skyward
