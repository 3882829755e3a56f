#pragma once

// Retries with exponential backoff. Each pause is drawn at random from the whole span below its
// limit, so that clients that failed together do not retry together.

#include <cstdint>

#include "skyward/base/time.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

struct RetryRules {
  int attempts = 8;
  Duration first_pause = std::chrono::milliseconds(200);
  Duration longest_pause = std::chrono::seconds(20);
};

// The pause after failed attempt number `attempt` (from 1); `random` is any number.
Duration retry_pause(const RetryRules& rules, int attempt, std::uint64_t random);

// The retries of one operation.
class Retries {
 public:
  Retries(const World& world, const RetryRules& rules, Time deadline)
      : world_(world), rules_(rules), deadline_(deadline) {}

  // Pauses, at least for as long as the server asked, and returns true. Returns false at once when
  // attempts or time are used up.
  bool again(Duration asked = {});
  int attempts() const { return attempts_; }

 private:
  const World& world_;  // outlives this
  const RetryRules rules_;
  const Time deadline_;
  int attempts_ = 0;
};

}  // namespace skyward::provider
