#include "skyward/provider/fake/cloud.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace skyward::provider::fake {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Time kBegin = Time{} + 1h;

class CloudTest : public ::testing::Test {
 protected:
  CloudTest() { start({}); }

  void start(CloudConfig config) {
    config.types = {{.name = "fake-a100", .on_demand = 3'600'000, .spot = 1'800'000}};
    cloud_.emplace(std::move(config), kBegin);
    now_ = kBegin;
    request_.group = *cloud_->make_item(now_, "security_group", "group", tags_);
    request_.key = *cloud_->make_item(now_, "key_pair", "key", tags_);
  }
  LaunchRequest order(std::string token, int count = 1) const {
    LaunchRequest made = request_;
    made.token = token;
    made.count = count;
    made.tags[kLaunchTag] = std::move(token);
    return made;
  }
  std::string bought(const std::string& token) {
    const auto made = cloud_->run_machines(now_, order(token));
    EXPECT_TRUE(made) << made.error().message;
    return made->front().id;
  }
  MachineState listed(const std::string& id) {
    const auto found = cloud_->list_machines(now_, {});
    for (const Machine& one : *found) {
      if (one.id == id) return one.state;
    }
    ADD_FAILURE() << id << " is not listed";
    return MachineState::ended;
  }
  // One request that no careful client makes.
  template <typename T>
  void expect_violation(const Answer<T>& answer, const char* why) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, "Violation");
    ASSERT_THAT(cloud_->violations(), SizeIs(++violations_));
    EXPECT_THAT(cloud_->violations().back(), HasSubstr(why));
  }

  const Tags tags_{{kPoolTag, "pool-1"}, {kOwnerTag, "me"}, {kExpiresTag, "1700086400"}};
  LaunchRequest request_{.type = "fake-a100",
                         .zone = "zone-a",
                         .spot = true,
                         .lifetime = 24h,
                         .unclaimed = 15min,
                         .tags = tags_};
  std::optional<Cloud> cloud_;
  Time now_ = kBegin;
  std::size_t violations_ = 0;
};

TEST_F(CloudTest, AMachineBootsRunsAndEnds) {
  const std::string id = bought("one");
  EXPECT_EQ(listed(id), MachineState::pending);
  now_ += 40s;
  EXPECT_EQ(listed(id), MachineState::running);
  cloud_->claim(now_, id);
  now_ += 1h;
  ASSERT_TRUE(cloud_->end_machines(now_, {id}));
  EXPECT_EQ(listed(id), MachineState::ending);
  EXPECT_EQ(cloud_->standing(), 1);
  now_ += 5s;
  EXPECT_EQ(listed(id), MachineState::ended);
  EXPECT_EQ(cloud_->standing(), 0);
  EXPECT_EQ(cloud_->bill(now_ + 1h), 1'800'000 * 3645LL / 3600);
  EXPECT_THAT(cloud_->violations(), IsEmpty());
}

// A client that has not looked for long cannot know that the machine has ended.
TEST_F(CloudTest, WhatNoListingShowsMayBeEndedAgain) {
  const std::string id = bought("one");
  ASSERT_TRUE(cloud_->end_machines(now_, {id}));
  now_ += 10min;
  EXPECT_EQ(cloud_->end_machines(now_, {id}).error().code, "Violation");
  now_ += 1h;
  EXPECT_TRUE(cloud_->end_machines(now_, {id}));
  EXPECT_THAT(cloud_->violations(), SizeIs(1));
}

TEST_F(CloudTest, AMinuteIsTheLeastThatIsBilled) {
  const std::string id = bought("one");
  ASSERT_TRUE(cloud_->end_machines(now_, {id}));
  now_ += 10s;
  cloud_->advance(now_);
  EXPECT_EQ(cloud_->bill(now_), 1'800'000 / 60);
  EXPECT_EQ(cloud_->bill(now_, "another pool"), 0);
}

TEST_F(CloudTest, WhatEndsMachinesByItself) {
  const std::string unclaimed = bought("one");
  const std::string claimed = bought("two");
  cloud_->claim(now_, claimed);
  now_ += 20min;
  EXPECT_EQ(listed(unclaimed), MachineState::ended);
  EXPECT_EQ(listed(claimed), MachineState::running);
  now_ += 24h;
  EXPECT_EQ(cloud_->standing(), 1);  // until somebody looks
  cloud_->advance(now_);
  EXPECT_EQ(cloud_->standing(), 0);
  EXPECT_THAT(cloud_->take_events(), SizeIs(2));
}

TEST_F(CloudTest, ListingsLag) {
  start({.listing_lag = 60s});
  const std::string id = bought("one");
  now_ += 59s;
  EXPECT_THAT(*cloud_->list_machines(now_, {}), IsEmpty());
  now_ += 1s;
  EXPECT_EQ(listed(id), MachineState::pending);
  ASSERT_TRUE(cloud_->end_machines(now_, {id}));
  now_ += 59s;
  EXPECT_EQ(listed(id), MachineState::running);
  now_ += 6s;
  EXPECT_EQ(listed(id), MachineState::ended);
  now_ += 2h;
  EXPECT_THAT(*cloud_->list_machines(now_, {}), IsEmpty());
}

TEST_F(CloudTest, ATokenLaunchesOnce) {
  const std::string id = bought("one");
  EXPECT_EQ(bought("one"), id);
  EXPECT_EQ(cloud_->sold(), 1);
  LaunchRequest other = order("one");
  other.count = 2;
  expect_violation(cloud_->run_machines(now_, other), "used for something else");
}

TEST_F(CloudTest, CarelessRequestsAreViolations) {
  const auto changed = [&](const std::function<void(LaunchRequest&)>& change) {
    LaunchRequest made = order("careless");
    change(made);
    return cloud_->run_machines(now_, made);
  };
  expect_violation(changed([](LaunchRequest& r) { r.tags.erase(kOwnerTag); }), "no tag \"owner\"");
  expect_violation(changed([](LaunchRequest& r) { r.tags[kExpiresTag] = "1"; }), "not later");
  expect_violation(changed([](LaunchRequest& r) { r.tags[kLaunchTag] = "x"; }), "is not its token");
  expect_violation(changed([](LaunchRequest& r) { r.type = "x"; }), "no type \"x\"");
  expect_violation(changed([](LaunchRequest& r) { r.zone = "x"; }), "no zone \"x\"");
  expect_violation(changed([](LaunchRequest& r) { r.group = "x"; }), "no security_group \"x\"");
  expect_violation(changed([](LaunchRequest& r) { r.lifetime = {}; }),
                   "no timer that would terminate it");
  expect_violation(changed([](LaunchRequest& r) { r.count = 0; }), "0 machines");
  expect_violation(cloud_->end_machines(now_, {"i-none"}), "never sold");
  expect_violation(cloud_->end_machines(now_, {}), "no machine is named");
  expect_violation(cloud_->make_item(now_, "key_pair", "key", {}), "no tag \"pool\"");
  Tags other = tags_;
  other["more"] = "x";
  expect_violation(cloud_->make_item(now_, "key_pair", "key", other), "with other tags");
  EXPECT_EQ(cloud_->sold(), 0);
}

TEST_F(CloudTest, WhoeverHasHadTimeToSeeTheEndDoesNotAskForIt) {
  const std::string id = bought("one");
  ASSERT_TRUE(cloud_->end_machines(now_, {id}));
  now_ += 30s;
  EXPECT_TRUE(cloud_->end_machines(now_, {id}));
  ASSERT_TRUE(cloud_->delete_item(now_, "key_pair", "key"));
  EXPECT_EQ(cloud_->delete_item(now_, "key_pair", "key").error().code, "NotFound");
  now_ += 2min;
  expect_violation(cloud_->end_machines(now_, {id}), "has ended");
  expect_violation(cloud_->delete_item(now_, "key_pair", request_.key), "is gone");
}

TEST_F(CloudTest, WhatMachinesUseStays) {
  const std::string id = bought("one");
  EXPECT_EQ(cloud_->delete_item(now_, "security_group", "group").error().code, "InUse");
  ASSERT_TRUE(cloud_->end_machines(now_, {id}));
  now_ += 10s;
  EXPECT_TRUE(cloud_->delete_item(now_, "security_group", "group"));
}

TEST_F(CloudTest, RequestsAreThrottled) {
  start({.requests_per_second = 1, .burst = 3});
  EXPECT_TRUE(cloud_->list_types(now_));
  EXPECT_EQ(cloud_->list_types(now_).error().code, "Throttled");
  expect_violation(cloud_->list_types(now_ + 10ms), "retried at once after being throttled");
  EXPECT_TRUE(cloud_->list_types(now_ + 1s));
}

TEST_F(CloudTest, TheDrawnMachinesAreTakenBackOnce) {
  start({.preemptions = 2, .preempt_after = 60s, .notice = 120s});
  const auto made = cloud_->run_machines(now_, order("four", 4));
  for (const Machine& one : *made) cloud_->claim(now_, one.id);
  now_ += 90s;
  cloud_->advance(now_);
  EXPECT_EQ(cloud_->preempted(), 2);
  EXPECT_EQ(cloud_->standing(), 4);
  const auto notices = cloud_->take_events();
  ASSERT_THAT(notices, SizeIs(2));
  EXPECT_EQ(notices.front().left, 120s);
  EXPECT_FALSE(cloud_->preempt(now_, notices.front().machine, {}));  // it is announced already
  now_ += 120s;
  cloud_->advance(now_);
  EXPECT_EQ(cloud_->standing(), 2);
  now_ += 1h;
  cloud_->advance(now_);
  EXPECT_EQ(cloud_->preempted(), 2);
}

TEST_F(CloudTest, AStormTakesEverySpotMachine) {
  start({.notice = {}, .storms = {10min}});
  (void)bought("one");
  LaunchRequest whole = order("two");
  whole.spot = false;
  const auto safe = cloud_->run_machines(now_, whole);
  for (const std::string id : {"i-0003", "i-0004"}) cloud_->claim(now_, id);
  now_ += 11min;
  cloud_->advance(now_);
  EXPECT_EQ(cloud_->standing(), 1);
  EXPECT_TRUE(cloud_->stands(safe->front().id));
}

TEST_F(CloudTest, PriceStepsAreBilledInTime) {
  const std::string id = bought("one");
  cloud_->claim(now_, id);
  now_ += 1h;
  cloud_->set_hourly(now_, "fake-a100", true, 3'600'000);
  now_ += 30min;
  EXPECT_EQ(cloud_->bill(now_), 1'800'000 + 1'800'000);
  EXPECT_THAT(
      cloud_->charges(now_, id),
      ElementsAre(
          Charge{.instance = id, .hourly = to_dollars(1'800'000), .since = 90min, .began = 90min},
          Charge{.instance = id, .hourly = to_dollars(3'600'000), .since = 30min, .began = 90min}));
}

TEST_F(CloudTest, OfTwoPricesAtOneMomentTheLastOneHolds) {
  const std::string id = bought("one");
  cloud_->claim(now_, id);
  now_ += 1h;
  cloud_->set_hourly(now_, "fake-a100", true, 9'000'000);
  cloud_->set_hourly(now_, "fake-a100", true, 3'600'000);
  now_ += 30min;
  EXPECT_EQ(cloud_->bill(now_), 1'800'000 + 1'800'000);
  EXPECT_THAT(cloud_->charges(now_, id), SizeIs(2));
}

TEST_F(CloudTest, AMachineThatEndsAtTheMomentOfItsLaunchIsChargedAsEnded) {
  start({.launch_delay = {}});
  const std::string id = bought("one");
  ASSERT_TRUE(cloud_->preempt(now_, id, 0s));
  cloud_->advance(now_);
  now_ += 30min;
  const std::vector<Charge> charges = cloud_->charges(now_, id);
  ASSERT_THAT(charges, SizeIs(1));
  EXPECT_EQ(charges[0].ended, charges[0].began);
}

TEST_F(CloudTest, WhatIsTakenBackEarlyIsFreeWhereThatIsTheRule) {
  for (const bool rule : {true, false}) {
    start({.billing = {.free_when_taken_back = rule ? 1h : 0h}});
    const std::string id = bought("one");
    cloud_->claim(now_, id);
    now_ += 10min;
    ASSERT_TRUE(cloud_->preempt(now_, id, 2min));
    EXPECT_EQ(cloud_->bill(now_), 1'800'000 / 6) << "it stands";
    now_ += 2min;
    cloud_->advance(now_);
    EXPECT_EQ(cloud_->bill(now_), rule ? 0 : 1'800'000 / 5);
    EXPECT_TRUE(cloud_->charges(now_, id).back().taken_back);
  }
}

TEST_F(CloudTest, NoMachineCostsLessThanTheLeastCharge) {
  start({.billing = {.least = 2'000'000}});
  cloud_->claim(now_, bought("one"));
  now_ += 10min;
  EXPECT_EQ(cloud_->bill(now_), 2'000'000);
  now_ += 2h;
  EXPECT_GT(cloud_->bill(now_), 2'000'000);
}

TEST_F(CloudTest, WhoeverSetsALimitIsOutbid) {
  LaunchRequest limited = order("one");
  limited.most_hourly = 2'000'000;
  const auto made = cloud_->run_machines(now_, limited);
  cloud_->set_hourly(now_, "fake-a100", true, 2'100'000);
  EXPECT_EQ(cloud_->preempted(), 1);
  limited = order("two");
  limited.most_hourly = 2'000'000;
  EXPECT_EQ(cloud_->run_machines(now_, limited).error().code, "PriceTooLow");
}

TEST_F(CloudTest, WhatBecomesOfMachinesDoesNotDependOnHowOftenTheyAreLookedAt) {
  const auto running = [&](int looks) {
    start({.failed_boots = 0.5});
    const auto made = cloud_->run_machines(now_, order("ten", 10));
    for (int i = 0; i < looks; ++i) EXPECT_TRUE(cloud_->list_machines(now_, {}));
    now_ += 1min;
    cloud_->advance(now_);
    std::vector<std::string> out;
    for (const Machine& one : *made) {
      if (cloud_->stands(one.id)) out.push_back(one.id);
    }
    return out;
  };
  const std::vector<std::string> expected = running(0);
  EXPECT_FALSE(expected.empty() || expected.size() == 10);
  EXPECT_EQ(running(5), expected);
}

TEST_F(CloudTest, OneSeedOneStory) {
  const auto story = [](std::uint64_t seed) {
    CloudConfig config{.types = {{.name = "t", .on_demand = 1'000'000, .spot = 400'000}}};
    config.lost_replies = 0.3;
    config.server_errors = 0.3;
    config.price_volatility = 0.1;
    config.seed = seed;
    Cloud cloud(std::move(config), kBegin);
    std::string text;
    for (int i = 0; i < 100; ++i) {
      const auto types = cloud.list_types(kBegin + i * 1min);
      text += types ? std::to_string(types->front().spot) : types.error().code;
    }
    return text;
  };
  EXPECT_EQ(story(1), story(1));
  EXPECT_NE(story(1), story(2));
  EXPECT_THAT(story(1), HasSubstr("NoReply"));
  EXPECT_THAT(story(1), HasSubstr("InternalError"));
}

}  // namespace
}  // namespace skyward::provider::fake
