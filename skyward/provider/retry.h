#pragma once

// Retries with exponential backoff. Each pause is drawn at random from the whole span below its
// limit, so that clients that failed together do not retry together.

#include <chrono>
#include <cstdint>

#include "skyward/base/time.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

struct RetryRules {
  int attempts = 8;
  Duration first_pause = std::chrono::milliseconds(200);
  Duration longest_pause = std::chrono::seconds(20);
};

// For this long, refusals because of too many requests do not count as attempts: everybody who uses
// the account has to wait.
inline constexpr Duration kThrottledTime = std::chrono::seconds(90);

// The pause after failed attempt number `attempt` (from 1); `random` is any number.
Duration retry_pause(const RetryRules& rules, int attempt, std::uint64_t random);

// The retries of one operation.
class Retries {
 public:
  Retries(const World& world, const RetryRules& rules, Time deadline)
      : world_(world), rules_(rules), deadline_(deadline), begun_(world.now()) {}

  // Pauses for as long as the server asked and a random time, and returns true. Returns false at
  // once when attempts or time are used up. `throttled`: too many requests were sent.
  bool again(Duration asked = {}, bool throttled = false);

 private:
  const World& world_;  // outlives this
  const RetryRules rules_;
  const Time deadline_;
  const Time begun_;
  int attempts_ = 0;
  int counted_ = 0;
};

}  // namespace skyward::provider
