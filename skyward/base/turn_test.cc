#include "skyward/base/turn.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

TEST(TurnTest, OneFollowsAnother) {
  Turns turns;
  int taken = 0;
  for (int i = 0; i < 2; ++i) turns.take([&] { ++taken; });
  EXPECT_EQ(taken, 2);
}

TEST(TurnDeathTest, OneInsideOfAnotherIsNoticedInDebugBuilds) {
  Turns turns;
  const auto call_back = [&] { turns.take([&] { turns.take([] {}); }); };
  EXPECT_DEBUG_DEATH(call_back(), "called back into its core");
}

}  // namespace
}  // namespace skyward
