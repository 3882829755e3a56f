#pragma once

// Tasks on all workers that need each other (CallOptions::together): the wait for them, and which
// of their failures tells the most. python/skyward/pool/together.py is the other language's.

#include <chrono>
#include <cstddef>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/call/call.h"
#include "skyward/pool/handle.h"

namespace skyward {

// How long the others may continue after one has failed.
inline constexpr Duration kTogetherGrace = std::chrono::seconds(15);

// Waits for all; the outcomes by rank. When a task fails, the others have a moment to notice, and
// are then cancelled: they would wait for it, perhaps for ever. At once if its node was lost.
std::vector<Outcome> await_together(std::vector<Handle>& handles, Duration grace = kTogetherGrace);

// The ranks, causes before consequences: lost nodes and workers that died first, then what was
// thrown; last those that ran out of time, and those that were cancelled.
std::vector<std::size_t> in_order(const std::vector<Outcome>& outcomes);

}  // namespace skyward
