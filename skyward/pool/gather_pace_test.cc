#include "skyward/pool/gather_pace.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

using namespace std::chrono_literals;

TEST(GatherPace, WaitsNoLongerForNearNodesThanQuickCallsTake) {
  GatherPace pace;
  pace.note_first_answer(150us, 5us);
  EXPECT_LT(pace.patience_at_first(), 51ms);
  EXPECT_LT(pace.patience(), 11ms);
  EXPECT_EQ(pace.groups_ahead(), 4);
}

TEST(GatherPace, IsPatientWithDistantNodes) {
  GatherPace pace;
  EXPECT_GE(pace.patience_at_first(), 500ms) << "the first answer tells how far they are";
  pace.note_first_answer(120ms, 20ms);
  EXPECT_EQ(pace.patience_at_first(), 250ms);
  EXPECT_EQ(pace.patience(), 210ms);
  EXPECT_EQ(pace.groups_ahead(), 16) << "slots work while answers travel";
}

TEST(GatherPace, TakesNoNodeForFartherThanAnyIs) {
  GatherPace pace;
  pace.note_first_answer(60s, 1ms);  // its process had to be started, for example
  EXPECT_LE(pace.patience_at_first(), 550ms);
  EXPECT_LE(pace.patience(), 510ms);
}

TEST(GatherPace, ASlowFirstCallIsNoDistance) {
  GatherPace pace;
  pace.note_first_answer(10s, 10s);
  EXPECT_EQ(pace.patience(), 10ms);
  EXPECT_EQ(pace.groups_ahead(), 4);
}

TEST(GatherPace, FirstCallsThatRunForLongAreSlowHoweverManyHaveEnded) {
  GatherPace pace;
  pace.note_first_calls(0.19, 4);
  EXPECT_TRUE(pace.in_groups());
  pace.note_first_calls(0.21, 4);
  EXPECT_FALSE(pace.in_groups());
}

TEST(GatherPace, AGroupRunsAQuarterOfAMillisecond) {
  GatherPace pace;
  EXPECT_EQ(pace.size(), wire::kMaxGroupCalls);
  pace.measure(0.001, 100);
  EXPECT_EQ(pace.size(), 25U);
  pace.measure(25e-6, 25);
  EXPECT_EQ(pace.size(), 100U) << "it grows in steps";
  pace.measure(0, 100);
  EXPECT_EQ(pace.size(), 100U) << "nothing of it ran";
}

TEST(GatherPace, CallsThatStaySlowGoAlone) {
  GatherPace pace;
  for (int i = 0; i < 15; ++i) pace.measure(0.001, 1);
  pace.measure(1e-6, 1);
  for (int i = 0; i < 15; ++i) pace.measure(0.001, 1);
  EXPECT_TRUE(pace.in_groups());
  EXPECT_EQ(pace.size(), 1U);
  pace.measure(0.001, 1);
  EXPECT_FALSE(pace.in_groups());
  pace.measure(1e-6, 1);
  EXPECT_FALSE(pace.in_groups());
}

}  // namespace
}  // namespace skyward
