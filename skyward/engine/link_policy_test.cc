#include "skyward/engine/link_policy.h"

#include <gtest/gtest.h>

#include <chrono>

#include "skyward/spec/link_limits.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using End = LinkPolicy::End;

constexpr LinkPolicy::Limits kLimits{.greet = 30s, .silence = 3s, .patience = 12s, .lease = 10min};
constexpr Time kStart = Time{} + 1000s;
constexpr End kSilent{};
constexpr End kRefusedEnd{.hopeless = true, .refused = true};
constexpr End kOfflineEnd{.offline = true};

class LinkPolicyTest : public testing::Test {
 protected:
  void welcome() {
    policy.on_attempt();
    policy.on_welcome();
  }
  // Every attempt ends like this, at once. Returns how long after its connection the node is lost.
  std::optional<Duration> given_up_after(const End& end) {
    const Time began = now;
    for (int tries = 0; tries < 1000; ++tries) {
      const auto next = policy.on_end(end, now, 1);
      if (!next) return now - began;
      EXPECT_GT(*next, now);
      now = *next;
      policy.on_attempt();
    }
    return std::nullopt;
  }

  Time now = kStart;
  LinkPolicy policy{kLimits, kStart};
};

TEST_F(LinkPolicyTest, TheFirstWelcomeIsAwaitedForItsTime) {
  policy.on_attempt();
  EXPECT_GT(given_up_after(kSilent), 27s);
  EXPECT_LE(now, kStart + kLimits.greet);
}

TEST_F(LinkPolicyTest, WhereNobodyEverServedAnotherTryIsUseless) {
  policy.on_attempt();
  EXPECT_EQ(given_up_after(kRefusedEnd), 0s);
}

TEST_F(LinkPolicyTest, ARefusalOfAWelcomedNodeIsTriedAgain) {
  welcome();
  const auto first = policy.on_end(kRefusedEnd, now, 0);
  ASSERT_TRUE(first) << "one refusal may be the restart of a daemon";
  EXPECT_EQ(*first, now + 50ms);
  welcome();
  now += 60s;
  EXPECT_EQ(given_up_after(kRefusedEnd), kLimits.silence) << "the trouble before is forgotten";
}

TEST_F(LinkPolicyTest, TheEndOfAConnectionIsNoAttemptThatWasRefused) {
  policy = LinkPolicy({.greet = 30s, .silence = 10ms, .patience = 12s}, kStart);
  welcome();
  EXPECT_EQ(policy.on_end(kRefusedEnd, now, 1), now + kFirstReconnectPause)
      << "the patience with refusals is shorter than that";
}

TEST_F(LinkPolicyTest, WhatAGatewayRefusesSaysNothingAboutANode) {
  LinkPolicy::Limits limits = kLimits;
  limits.gateway = true;
  policy = LinkPolicy(limits, kStart);
  welcome();
  ASSERT_TRUE(policy.on_end(kRefusedEnd, now, 1));
  policy.on_attempt();
  EXPECT_GT(given_up_after(kRefusedEnd), 9s);
  EXPECT_LE(now, kStart + kLimits.patience);
  welcome();
  EXPECT_FALSE(policy.on_end({.permanent = true}, now, 0)) << "its job has ended, say";
}

TEST(LinkPatience, IsThePoolsOrSuitsItsProvider) {
  PoolSpec spec;
  EXPECT_EQ(patience_of(spec, false), 12s);
  EXPECT_EQ(patience_of(spec, true), 300s);
  spec.lease = 60s;
  EXPECT_EQ(patience_of(spec, true), 60s) << "the agent ends then";
  spec.reconnect_timeout = 5s;
  EXPECT_EQ(patience_of(spec, false), 5s);
  EXPECT_EQ(patience_of(spec, true), 5s);
}

TEST_F(LinkPolicyTest, SilenceIsBorneLongerThanRefusals) {
  welcome();
  ASSERT_TRUE(policy.on_end(kSilent, now, 1));
  policy.on_attempt();
  EXPECT_GT(given_up_after(kSilent), 9s);
  EXPECT_LE(now, kStart + kLimits.patience);
}

TEST_F(LinkPolicyTest, TheTimeWithoutANetworkIsNotTheNodesUntilItsAgentEnds) {
  welcome();
  ASSERT_TRUE(policy.on_end(kSilent, now, 1));
  for (const Time back = now + 9min; now < back;) {
    const auto next = policy.on_end(kOfflineEnd, now, 1);
    ASSERT_TRUE(next);
    EXPECT_LE(*next - now, 2s);
    now = *next;
    policy.on_attempt();
  }
  const Time back = now;
  EXPECT_GE(policy.trouble(now), 9min);
  EXPECT_GT(given_up_after(kSilent), 9s) << "it has its whole patience when the network is back";
  EXPECT_LE(now, back + kLimits.patience);
}

TEST_F(LinkPolicyTest, AnAgentThatHasEndedIsNotAwaitedWithoutANetwork) {
  welcome();
  EXPECT_GT(given_up_after(kOfflineEnd), kLimits.lease);
  EXPECT_LE(now, kStart + kLimits.lease + kLimits.patience);
}

TEST_F(LinkPolicyTest, ANodeThatWasNeverReachedIsNotAwaitedLonger) {
  policy.on_attempt();
  EXPECT_GT(given_up_after(kOfflineEnd), 27s);
  EXPECT_LE(now, kStart + kLimits.greet);
}

TEST_F(LinkPolicyTest, OneSilentTryMakesRefusalsNoProof) {
  welcome();
  ASSERT_TRUE(policy.on_end(kSilent, now, 1));
  policy.on_attempt();
  ASSERT_TRUE(policy.on_end(kSilent, now, 1));
  policy.on_attempt();
  EXPECT_GT(given_up_after(kRefusedEnd), 9s);
}

TEST_F(LinkPolicyTest, WhatAnotherTryCannotChangeEndsItAtAnyTime) {
  welcome();
  EXPECT_FALSE(policy.on_end({.gone = true}, now, 0));
  LinkPolicy other(kLimits, now);
  EXPECT_FALSE(other.on_end({.permanent = true}, now, 0));
  other.on_welcome();
  EXPECT_FALSE(other.on_end({.permanent = true}, now, 0));
}

TEST_F(LinkPolicyTest, PausesGrowAndStayBelowTwoSeconds) {
  welcome();
  Duration before{};
  for (int tries = 0; tries < 6; ++tries) {
    const auto next = policy.on_end(kSilent, now, 1);
    ASSERT_TRUE(next);
    EXPECT_GT(*next - now, before);
    EXPECT_LE(*next - now, 2s);
    before = std::min(*next - now, Duration{1999ms});
    now = *next;
    policy.on_attempt();
  }
}

TEST_F(LinkPolicyTest, ASilentConnectionIsGivenUpAndTheLastAttemptHasWhatIsLeft) {
  EXPECT_EQ(policy.silence(now), 15s) << "machines boot";
  welcome();
  EXPECT_EQ(policy.silence(now), 3s);
  ASSERT_TRUE(policy.on_end(kSilent, now, 0));
  EXPECT_EQ(policy.silence(now), 6s);
  EXPECT_EQ(policy.silence(now + 8s), 4s);
  EXPECT_EQ(policy.silence(now + 11s), 3s);
}

// By PAM, say, or because of a home on a slow file server.
TEST_F(LinkPolicyTest, AfterAFirstLoginThatWasDroppedTheNextOneHasTwiceTheTime) {
  policy = LinkPolicy({.greet = 90s, .silence = 3s, .patience = 12s}, kStart);
  policy.on_attempt();
  EXPECT_EQ(policy.silence(now), 15s);
  ASSERT_TRUE(policy.on_end({.refused = true}, now, 0));
  EXPECT_EQ(policy.silence(now), 15s) << "a machine that boots was not slow to log in";
  now += 15s;
  ASSERT_TRUE(policy.on_end({.silent = true}, now, 0));
  EXPECT_EQ(policy.silence(now), 30s);
  now += 30s;
  ASSERT_TRUE(policy.on_end({.silent = true}, now, 0));
  EXPECT_EQ(policy.silence(now), 45s) << "all that is left";
  EXPECT_EQ(policy.silence(kStart + 10min), 15s) << "after a long upload";
}

TEST_F(LinkPolicyTest, WhereLoginsAreSlowTheNextOneHasTwiceTheTimeOfTheFirst) {
  policy.on_attempt();
  policy.on_welcome(8s);
  ASSERT_TRUE(policy.on_end(kSilent, now, 0));
  EXPECT_EQ(policy.silence(now), 16s);
  policy.on_attempt();
  now += 14s;
  EXPECT_TRUE(policy.on_end(kSilent, now, 0));
  policy.on_attempt();
  policy.on_welcome(1h);
  EXPECT_EQ(policy.on_end(kSilent, now, 1), now + kFirstReconnectPause);
  EXPECT_EQ(policy.silence(now), 2 * kSlowestLogin);
  EXPECT_GT(decided_after({}, false), 3s + 2 * kSlowestLogin) << "the core waits longer";
  EXPECT_GT(decided_after({}, true), 303s);
}

// Through a jump host, say, or past an address that does not answer.
TEST_F(LinkPolicyTest, OfALongPatienceAnAttemptHasItsShare) {
  const auto silence_with = [&](Duration patience, Duration after) {
    LinkPolicy patient({.greet = 30s, .silence = 3s, .patience = patience}, kStart);
    patient.on_welcome();
    EXPECT_TRUE(patient.on_end(kSilent, now, 0));
    return patient.silence(now + after);
  };
  EXPECT_EQ(silence_with(12s, 0s), 6s);
  EXPECT_EQ(silence_with(30s, 0s), 15s);
  EXPECT_EQ(silence_with(30s, 24s), 6s);
  EXPECT_EQ(silence_with(300s, 0s), 15s) << "no more than the first attempt has";
}

// ssh takes two megabytes before the first of them has crossed.
TEST(LinkPolicyUpload, CountsAsMovingOnSlowLinesAndNotForEver) {
  constexpr std::uint64_t kAgent = 2'500'000;
  EXPECT_EQ(LinkPolicy::crossed(kAgent, 0s, 1), 0U);
  std::uint64_t before = 0;
  for (Duration since = 15s; since < 75s; since += 15s) {
    const std::uint64_t crossed = LinkPolicy::crossed(kAgent, since, 1);
    EXPECT_GT(crossed, before);
    before = crossed;
  }
  EXPECT_EQ(LinkPolicy::crossed(kAgent, 80s, 1), kAgent);
  EXPECT_EQ(LinkPolicy::crossed(kAgent, 100s, 1), kAgent) << "a dead one is dropped after that";
  EXPECT_EQ(LinkPolicy::crossed(0, 100s, 1), 0U);
}

TEST(LinkPolicyUpload, SharesItsLineWithTheOthers) {
  constexpr std::uint64_t kAgent = 2'500'000;
  EXPECT_LT(LinkPolicy::crossed(kAgent, 100s, 5), LinkPolicy::crossed(kAgent, 115s, 5))
      << "at 1 Mbit/s, five nodes have it after 100 s";
  EXPECT_EQ(LinkPolicy::crossed(kAgent, 400s, 5), kAgent);
  EXPECT_EQ(LinkPolicy::crossed(kAgent, 10s, 0), LinkPolicy::crossed(kAgent, 10s, 1));
}

TEST_F(LinkPolicyTest, RefusalsAfterANewConnectionAreProofAgain) {
  welcome();
  ASSERT_TRUE(policy.on_end(kSilent, now, 1));
  policy.on_attempt();
  ASSERT_TRUE(policy.on_end(kSilent, now, 1));
  welcome();
  now += 60s;
  EXPECT_EQ(given_up_after(kRefusedEnd), kLimits.silence);
}

TEST_F(LinkPolicyTest, WithoutANetworkRefusalsStayProof) {
  welcome();
  ASSERT_TRUE(policy.on_end(kSilent, now, 1));
  policy.on_attempt();
  ASSERT_TRUE(policy.on_end(kOfflineEnd, now, 1));
  policy.on_attempt();
  EXPECT_EQ(given_up_after(kRefusedEnd), kLimits.silence);
}

}  // namespace
}  // namespace skyward::engine
