#pragma once

// How often to poll where the kernel sends no event: for the release of a lock, and for the exit of
// a child on kernels without pidfd.

#include <chrono>

#include "skyward/base/time.h"

namespace skyward::io {

inline constexpr Duration kPollInterval = std::chrono::milliseconds(20);

}  // namespace skyward::io
