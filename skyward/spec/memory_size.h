#pragma once

// Amounts of memory as people write them: "32GB", "512 MiB", "1.5G".

#include <cstdint>
#include <string_view>

#include "skyward/base/error.h"

namespace skyward {

// In MiB. The unit must be said: "32" is refused. `where` starts the message of an error.
Result<std::int64_t> parse_memory_mb(std::string_view text, std::string_view where = "memory");

}  // namespace skyward
