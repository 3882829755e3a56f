#include "skyward/pool/pace.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

using namespace std::chrono_literals;

void call(Pace& pace, Duration running) {
  pace.began(1);
  pace.ended(running);
}

TEST(Pace, CallersWaitAwakeWhileFunctionsAreQuick) {
  Pace pace(2);
  pace.began(1);
  EXPECT_TRUE(pace.is_quick()) << "the first call finds out";
  pace.ended(10us);
  for (int i = 0; i < 30; ++i) call(pace, 50ms);
  EXPECT_FALSE(pace.is_quick());
  for (int i = 0; i < 60; ++i) call(pace, 10us);
  EXPECT_TRUE(pace.is_quick());
}

TEST(Pace, ABatchHasTheCoresForItself) {
  Pace pace(4);
  pace.began(2);
  EXPECT_TRUE(pace.is_quick());
  pace.began(1);
  EXPECT_FALSE(pace.is_quick());
  pace.ended(1us);
  EXPECT_TRUE(pace.is_quick());
}

TEST(Pace, NobodyIsAwakeOnOneCore) {
  Pace pace(1);
  EXPECT_FALSE(pace.is_quick());
  pace.began(1);
  EXPECT_FALSE(pace.is_quick());
}

TEST(Pace, BetweenTwoQuickCallsTheEngineStaysAwake) {
  Pace pace(2);
  call(pace, 10us);
  EXPECT_TRUE(pace.is_quick());
  for (int i = 0; i < 30; ++i) call(pace, 50ms);
  EXPECT_FALSE(pace.is_quick());
}

}  // namespace
}  // namespace skyward
