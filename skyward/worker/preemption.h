#pragma once

// The notice before a machine ends, for functions that want to save their work.

#include <functional>

#include "skyward/base/time.h"

namespace skyward {

// Inside a task: `callback` is called, once, before the cloud preempts the machine, or the pool's
// timeout or budget ends it; at once when that is known already. It gets the time that is left, two
// minutes at most on EC2. It runs on a thread of its own, beside the task, whose result leaves when
// it has returned: it must not wait for the task's end. What it throws is printed and dropped.
// Forgotten at the end of the task. Outside a task it is never called.
void on_preemption(std::function<void(Duration left)> callback);

}  // namespace skyward
