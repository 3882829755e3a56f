#pragma once

// Where coroutines go on that have waited for a future: one thread of this process, which starts
// with the first of them. The engine's thread, which learns of the answer, must not run them.

#include <coroutine>

namespace skyward {

// Resumes it there, in the order of these calls. Any thread; does not block. What the coroutine
// throws must stay in it: its promise decides.
void resume_elsewhere(std::coroutine_handle<> coroutine);

}  // namespace skyward
