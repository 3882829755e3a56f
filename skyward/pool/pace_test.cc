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

TEST(Pace, TheEngineIsToldOnWhichCoreACallerSpins) {
  Pace pace(2);
  EXPECT_FALSE(pace.is_callers_core(0)) << "no caller has spun yet";
  pace.spins_on(1);
  EXPECT_TRUE(pace.is_callers_core(1));
  EXPECT_FALSE(pace.is_callers_core(0));
}

TEST(Pace, NobodyIsAwakeOnOneCore) {
  Pace pace(1);
  EXPECT_FALSE(pace.is_quick());
  pace.began(1);
  EXPECT_FALSE(pace.is_quick());
}

TEST(Pace, WhereSpinningIsAlwaysInVainFewSpin) {
  Pace pace(2);
  const auto call_far_away = [&pace](int times) {
    int spun = 0;
    for (int i = 0; i < times; ++i) spun += pace.should_spin() ? 1 : 0;
    return spun;
  };
  EXPECT_EQ(call_far_away(50), 50) << "the kernel may have to move an agent or a worker";
  const int later = call_far_away(10'000);
  EXPECT_GT(later, 100);
  EXPECT_LT(later, 200);
  EXPECT_TRUE(pace.is_quick()) << "the engine spins for the next call all the same";
  while (!pace.should_spin()) continue;
  pace.answered();
  EXPECT_EQ(call_far_away(50), 50);
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
