#include "skyward/provider/retry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;

TEST(Retry, PausesDoubleUpToTheLimitAndAreDrawnFromTheWholeSpan) {
  const RetryRules rules{.attempts = 9, .first_pause = 100ms, .longest_pause = 1s};
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  EXPECT_EQ(retry_pause(rules, 1, 0), 0ms);
  EXPECT_GT(retry_pause(rules, 1, kMost), 99ms);
  EXPECT_LE(retry_pause(rules, 1, kMost), 100ms);
  EXPECT_GT(retry_pause(rules, 3, kMost), 399ms);
  EXPECT_LE(retry_pause(rules, 30, kMost), 1s);
  EXPECT_GT(retry_pause(rules, 30, kMost), 999ms);
  const Duration half = retry_pause(rules, 1, kMost / 2);
  EXPECT_TRUE(half > 49ms && half < 51ms);
}

TEST(Retry, EndsWithItsAttemptsOrItsTime) {
  WorldFixture fixture;
  Retries counted(fixture.world, {.attempts = 3}, kNever);
  EXPECT_TRUE(counted.again());
  EXPECT_TRUE(counted.again());
  EXPECT_FALSE(counted.again());
  EXPECT_EQ(fixture.pauses.size(), 2U);

  Retries timed(fixture.world, {.attempts = 1000}, fixture.now + 1min);
  int attempts = 1;
  while (timed.again()) ++attempts;
  EXPECT_LT(attempts, 1000);
  EXPECT_GT(attempts, 5);
}

// A class that opens its pools together, say.
TEST(Retry, ThrottlingDoesNotCountForAWhile) {
  WorldFixture fixture;
  const Time begun = fixture.now;
  Retries retries(fixture.world, {}, kNever);
  int attempts = 1;
  while (retries.again({}, true)) ++attempts;
  EXPECT_GE(attempts, 20);
  EXPECT_GE(fixture.now - begun, kThrottledTime);
  EXPECT_LT(fixture.now - begun, 5min);

  Retries timed(fixture.world, {}, fixture.now + 20s);
  while (timed.again({}, true)) continue;
  EXPECT_LT(fixture.now - begun, 6min);
}

TEST(Retry, WaitsAtLeastAsLongAsItWasAskedTo) {
  WorldFixture fixture;
  Retries retries(fixture.world, {}, fixture.now + 1min);
  ASSERT_TRUE(retries.again(30s));
  EXPECT_GT(fixture.pauses.back(), 30s) << "others were asked to wait as long";
  EXPECT_FALSE(retries.again(40s)) << "that is past the deadline";
}

}  // namespace
}  // namespace skyward::provider
