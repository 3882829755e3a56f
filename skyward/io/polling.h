#pragma once

// Waiting for the kernel without a loop.

#include <chrono>

#include "skyward/base/time.h"

namespace skyward::io {

// How often to poll where the kernel sends no event: for the release of a lock, and for the exit of
// a child on kernels without pidfd.
inline constexpr Duration kKernelPollInterval = std::chrono::milliseconds(20);

// Waits until the descriptor is ready for `events`, as poll(2) has them. As there, positive when it
// is, 0 when the deadline comes first, negative on failure (errno).
int poll_until(int descriptor, short events, Time deadline);

}  // namespace skyward::io
