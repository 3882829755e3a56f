#pragma once

// Moments as texts, in UTC wherever this computer is. Both count seconds since 1970.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace skyward {

// `format`: of strftime(3), for 64 bytes at most.
std::string utc_moment(std::int64_t wall_s, const char* format = "%Y-%m-%dT%H:%M:%SZ");

// "2021-09-21T23:34:52Z", "….123Z" (the fraction is dropped) or "…+02:00"; empty for anything else.
std::optional<std::int64_t> parse_moment(std::string_view text);

}  // namespace skyward
