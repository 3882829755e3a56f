#pragma once

// Moments for people and file names, in UTC wherever this computer is.

#include <cstdint>
#include <string>

namespace skyward {

// `wall_s`: seconds since 1970. `format`: of strftime(3), for 64 bytes at most.
std::string utc_moment(std::int64_t wall_s, const char* format = "%Y-%m-%dT%H:%M:%SZ");

}  // namespace skyward
