#include "skyward/provider/retry.h"

#include <algorithm>

namespace skyward::provider {

Duration retry_pause(const RetryRules& rules, int attempt, std::uint64_t random) {
  const int doublings = std::clamp(attempt - 1, 0, 20);
  const std::int64_t factor = std::int64_t{1} << doublings;
  const Duration limit = std::min(rules.longest_pause, rules.first_pause * factor);
  const double share = static_cast<double>(random >> 11) * 0x1p-53;
  return std::chrono::duration_cast<Duration>(limit * share);
}

bool Retries::again(Duration asked, bool throttled) {
  ++attempts_;
  if (!throttled || world_.now() - begun_ >= kThrottledTime) ++counted_;
  if (counted_ >= rules_.attempts) return false;
  const Duration pause = asked + retry_pause(rules_, attempts_, world_.random_bits());
  if (deadline_ != kNever && deadline_ - world_.now() <= pause) return false;
  world_.pause(pause, {});
  return true;
}

}  // namespace skyward::provider
