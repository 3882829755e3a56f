// Which leaks are removed, and which may be somebody's machines at work.

#include "skyward/provider/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace skyward::provider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kExpires_s = 10'000;
constexpr std::int64_t kBefore_s = 9'000;
const Resource kMachine{
    .kind = "instance", .id = "i-1", .pool = "aws-1", .owner = "me", .expires_s = kExpires_s};

TEST(Judge, WhatBelongsToSomebodyElseIsKeptEvenIfAskedFor) {
  for (const bool asked_for : {false, true}) {
    const Verdict of_another = judge(kMachine, {}, "you", asked_for, kExpires_s + 10'000);
    EXPECT_FALSE(of_another.remove);
    EXPECT_EQ(of_another.why, "it belongs to me");
  }
}

TEST(Judge, OtherCredentialsOfTheAccountMustBeAskedToRemoveItBeforeItsTimeIsOver) {
  const PoolFacts facts{.by_credentials = true};
  EXPECT_FALSE(judge(kMachine, facts, "you", false, kExpires_s + 119).remove);
  EXPECT_TRUE(judge(kMachine, facts, "you", true, kBefore_s).remove);
  EXPECT_TRUE(judge(kMachine, facts, "you", false, kExpires_s + 120).remove);
  const PoolFacts left_here{.opened_here = true, .by_credentials = true};
  EXPECT_FALSE(judge(kMachine, left_here, "you", false, kBefore_s).remove);
  const PoolFacts at_work{.at_work = true, .by_credentials = true};
  EXPECT_FALSE(judge(kMachine, at_work, "you", false, kExpires_s + 120).remove);
  Resource off = kMachine;
  off.stopped = true;
  const PoolFacts lasting{.ends_itself = false, .by_credentials = true};
  EXPECT_TRUE(judge(off, lasting, "you", false, kBefore_s).remove);
  EXPECT_FALSE(judge(off, facts, "you", false, kBefore_s).remove);
}

TEST(Judge, WhatOnlyOtherCredentialsMayRemoveIsOverdueWhereItCosts) {
  Resource off = kMachine;
  off.stopped = true;
  Resource key = kMachine;
  key.kind = "ssh_key";
  for (const bool ends_itself : {false, true}) {
    const PoolFacts facts{.ends_itself = ends_itself, .rented = true};
    const Verdict over = judge(kMachine, facts, "you", false, kExpires_s + 120);
    EXPECT_TRUE(over.overdue && !over.remove);
    EXPECT_THAT(over.why, HasSubstr("run gc with its owner's credentials"));
    EXPECT_FALSE(judge(kMachine, facts, "you", false, kExpires_s + 119).overdue);
    EXPECT_FALSE(judge(kMachine, facts, "me", false, kExpires_s + 120).overdue) << "it goes";
    EXPECT_FALSE(judge(key, facts, "you", false, kExpires_s + 120).overdue) << "keys cost nothing";
    EXPECT_EQ(judge(off, facts, "you", false, kBefore_s).overdue, !ends_itself);
  }
  EXPECT_FALSE(judge(kMachine, {}, "you", false, kExpires_s + 120).overdue) << "a pod, say";
}

TEST(Judge, WhatIsInUseHereIsKeptEvenIfAskedForAndExpired) {
  const PoolFacts facts{.opened_here = true, .at_work = true};
  for (const bool asked_for : {false, true}) {
    EXPECT_FALSE(judge(kMachine, facts, "me", asked_for, kExpires_s + 10'000).remove);
  }
}

TEST(Judge, WhatADeadProgramLeftHereIsRemovedAtOnce) {
  EXPECT_TRUE(judge(kMachine, {.opened_here = true}, "me", false, kBefore_s).remove);
}

// Another computer's clock may be a little behind.
TEST(Judge, WhatExpiredIsRemovedTwoMinutesLater) {
  EXPECT_FALSE(judge(kMachine, {}, "me", false, kExpires_s + 119).remove);
  EXPECT_TRUE(judge(kMachine, {}, "me", false, kExpires_s + 120).remove);
}

TEST(Judge, WhatMayBeInUseElsewhereMustBeAskedFor) {
  const Verdict kept = judge(kMachine, {}, "me", false, kBefore_s);
  EXPECT_FALSE(kept.remove);
  EXPECT_THAT(kept.why, HasSubstr("it terminates itself within 19 min"));
  EXPECT_THAT(kept.why, HasSubstr("'skyward pool delete aws-1'"));
  EXPECT_TRUE(judge(kMachine, {}, "me", true, kBefore_s).remove);
  const PoolFacts lasting{.ends_itself = false};
  EXPECT_THAT(judge(kMachine, lasting, "me", false, kBefore_s).why, Not(HasSubstr("itself")));
}

// With a wrong clock, machines at work would be over.
TEST(Judge, ByAnUnknownClockOnlyWhatHasEndedIsRemoved) {
  const PoolFacts facts{.is_clock_unknown = true};
  const Verdict kept = judge(kMachine, facts, "me", false, kExpires_s + 7200);
  EXPECT_FALSE(kept.remove);
  EXPECT_THAT(kept.why, HasSubstr("it terminates itself, 'skyward pool delete aws-1'"));
  Resource off = kMachine;
  off.stopped = true;
  EXPECT_TRUE(judge(off, facts, "me", false, kExpires_s + 120).remove);
  EXPECT_FALSE(judge(off, facts, "me", false, kExpires_s + 119).remove);
  EXPECT_TRUE(judge(kMachine, facts, "me", true, kBefore_s).remove) << "it was asked for";
  const PoolFacts left_here{.opened_here = true, .is_clock_unknown = true};
  EXPECT_TRUE(judge(kMachine, left_here, "me", false, kBefore_s).remove);
}

// All of it or its disk, depending on the cloud.
TEST(Judge, WhatIsSwitchedOffIsRemovedWhereItStillCosts) {
  Resource off = kMachine;
  off.stopped = true;
  const Verdict gone = judge(off, {.ends_itself = false}, "me", false, kBefore_s);
  EXPECT_TRUE(gone.remove);
  EXPECT_EQ(gone.why, "it is switched off but still billed");
  EXPECT_FALSE(judge(off, {.ends_itself = true}, "me", false, kBefore_s).remove);
}

}  // namespace
}  // namespace skyward::provider
