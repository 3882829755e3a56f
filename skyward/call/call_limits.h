#pragma once

// The limits that a caller gives to one call, checked. Both throw ConfigurationError.

#include <cstdint>

#include "skyward/base/time.h"

namespace skyward {

// As in CallOptions. A positive time; zero where it is kForever.
Duration run_time_limit(Duration limit);

// From 0 to 1000.
std::uint32_t retry_limit(int times);

}  // namespace skyward
