#pragma once

// How a worker hears of its machine's end; for worker.cc.

#include <cstdint>

namespace skyward {

// The machine is gone in so many milliseconds. Async-signal-safe.
void note_preemption(std::uint64_t left_ms);
// The task that registered them is over. Waits for the one that is being called.
void forget_preemption_callbacks();

}  // namespace skyward
