#pragma once

// Times as clouds write them.

#include <cstdint>
#include <optional>
#include <string_view>

namespace skyward::provider {

// "2021-09-21T23:34:52Z" or "…+02:00" in seconds since 1970.
std::optional<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace skyward::provider
