#include "skyward/testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "skyward/call/error.h"
#include "skyward/skyward.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeCloud;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int my_node() { return instance_info().node; }
constexpr auto node = compute<my_node>;

TEST(FakeCloudForUsers, APoolLosesAMachineAndTheBillIsExact) {
  FakeCloud cloud({.prices = {{"A100", 4.0}}, .launch_delay = 60s, .speed = 0});
  {
    ComputePool pool(
        {.provider = cloud, .nodes = 2, .accelerator = "A100", .display = Display::quiet});
    EXPECT_THAT(broadcast(node(), pool), ElementsAre(0, 1));
    cloud.preempt(1, Duration{});
    EXPECT_THAT(broadcast(node(), pool), ElementsAre(0, 1));
    cloud.advance(30min);
    EXPECT_EQ(cloud.running(), 2);
  }
  EXPECT_EQ(cloud.launched(), 3);
  EXPECT_EQ(cloud.preempted(), 1);
  EXPECT_GT(cloud.bill(), 1.6);  // two spot machines, at two fifths, for half an hour
  EXPECT_LT(cloud.bill(), 1.8);
  EXPECT_GE(cloud.elapsed(), 30min);
  EXPECT_THAT(cloud.left(), IsEmpty());
  EXPECT_THAT(cloud.violations(), IsEmpty());
}

TEST(FakeCloudForUsers, WhatCannotBeHadIsSaid) {
  FakeCloud cloud({.prices = {{"T4", 0.5}}, .capacity = {{"T4", 1}}, .speed = 0});
  EXPECT_THROW(ComputePool({.provider = cloud, .nodes = 2, .display = Display::quiet}),
               ProvisioningError);
  EXPECT_THAT(cloud.left(), IsEmpty());
}

TEST(FakeCloudForUsers, ABudgetEndsThePoolWhenTheClockIsAdvanced) {
  FakeCloud cloud({.prices = {{"cpu", 1.0}}, .speed = 0});
  ComputePool pool({.provider = cloud,
                    .spot = "never",
                    .budget = 0.30,
                    .timeout = 10h,
                    .display = Display::quiet});
  cloud.advance(10min);
  EXPECT_EQ(node() >> pool, 0);
  cloud.advance(10min);
  EXPECT_THROW(node() >> pool, BudgetExceededError);
}

TEST(FakeCloudForUsers, DialsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(FakeCloud({.prices = {{"A1000", 1.0}}}), ConfigurationError);
  EXPECT_THROW(FakeCloud({.capacity = {{"L4", 1}}}), ConfigurationError);
  EXPECT_THROW(FakeCloud({.lost_replies = 2}), ConfigurationError);
  FakeCloud cloud({.speed = 0});
  EXPECT_THROW(cloud.preempt(0), ConfigurationError);
  EXPECT_THROW(cloud.advance(-1s), ConfigurationError);
  EXPECT_THROW(cloud.set_spot_price("L4", 1), ConfigurationError);
  for (const double price : {-1.0, 0.0, 1e9, std::nan("")}) {
    EXPECT_THROW(cloud.set_spot_price("cpu", price), ConfigurationError) << price;
    EXPECT_THROW(FakeCloud({.prices = {{"cpu", price}}}), ConfigurationError) << price;
  }
  try {
    FakeCloud({.prices = {{"A100", 4.0}}, .spot_prices = {{"A100", -1.0}}});
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("spot_prices[\"A100\"]=-1"));
  }
  EXPECT_THROW(FakeCloud({.launch_delay = -1s}), ConfigurationError);
  EXPECT_THROW(FakeCloud({.storms = {1s, -1s}}), ConfigurationError);
  EXPECT_THROW(FakeCloud({.quota = -1}), ConfigurationError);
  EXPECT_THROW(FakeCloud({.speed = INFINITY}), ConfigurationError);
}

}  // namespace
}  // namespace skyward
