#include "skyward/call/call_limits.h"

#include <string>

#include "skyward/base/forever.h"
#include "skyward/call/error.h"

namespace skyward {

Duration run_time_limit(Duration limit) {
  if (limit <= Duration{}) {
    throw ConfigurationError("with_timeout(" + std::to_string(seconds(limit)) +
                             " s): a time limit is a positive number of seconds");
  }
  return zero_if_forever(limit);
}

std::uint32_t retry_limit(int times) {
  constexpr int kMost = 1000;
  if (times >= 0 && times <= kMost) return static_cast<std::uint32_t>(times);
  throw ConfigurationError("with_retries(" + std::to_string(times) +
                           "): retries is a number from 0 to " + std::to_string(kMost));
}

}  // namespace skyward
