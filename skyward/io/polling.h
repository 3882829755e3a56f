#pragma once

// How often to look again where the kernel sends no event: for a lock that is released, and for the
// end of a child on kernels without pidfd.

#include <chrono>

#include "skyward/base/time.h"

namespace skyward::io {

inline constexpr Duration kPollInterval = std::chrono::milliseconds(20);

}  // namespace skyward::io
