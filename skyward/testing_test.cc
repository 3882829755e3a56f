#include "skyward/testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

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

TEST(FakeCloudForUsers, CapacityIsSetAndBigMachinesCostMore) {
  FakeCloud cloud({.prices = {{"H100", 8.0}}, .capacity = {{"H100", 0}}, .speed = 0});
  const PoolOptions options{.provider = cloud,
                            .accelerator = accelerators::H100({.count = 8}),
                            .spot = "never",
                            .timeout = 10h,
                            .display = Display::quiet};
  EXPECT_THROW(ComputePool{options}, ProvisioningError);
  cloud.set_capacity("H100", 1);
  const ComputePool pool(options);
  const double before = cloud.bill();
  cloud.advance(1h);
  EXPECT_NEAR(cloud.bill() - before, 64, 1) << "a minute is paid already";
  EXPECT_THROW(cloud.set_capacity("L4", 1), ConfigurationError);
  EXPECT_THROW(cloud.set_capacity("H100", -1), ConfigurationError);
}

TEST(FakeCloudForUsers, APoolThatFailsWaitsForNoOtherOneToOpen) {
  FakeCloud cloud({.launch_delay = 24h, .speed = 5});
  const PoolOptions slow{.provider = cloud, .display = Display::quiet};
  const PoolOptions wrong{.nodes = 0, .display = Display::quiet};
  EXPECT_THROW(MultiPool({slow, wrong, slow}), ConfigurationError);
  EXPECT_LT(cloud.elapsed(), 2min);
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

// A provider whose machines never start, and what is said of the money then.
struct Fallback {
  explicit Fallback(double hourly = 1)
      : broken({.prices = {{"cpu", hourly}}, .failed_boots = 1, .speed = 0}) {}

  FakeCloud broken;
  std::mutex mutex;
  std::vector<CostFinal> bills;
  std::vector<double> spent;

  PoolOptions then(const ProviderSpec& other) {
    PoolOptions options{.provider = broken, .other_providers = {other}, .spot = "never"};
    options.display = Display::quiet;
    options.on_event = [this](const Event& event) {
      const std::lock_guard lock(mutex);
      match(
          event, [&](const CostFinal& bill) { bills.push_back(bill); },
          [&](const CostUpdate& update) { spent.push_back(update.accumulated_cost); });
    };
    return options;
  }
};

TEST(FakeCloudForUsers, OneBillHasTheMachinesOfAllProviders) {
  Fallback fallback;
  FakeCloud sound({.prices = {{"cpu", 2.0}}, .speed = 0});
  PoolCost cost;
  {
    PoolOptions options = fallback.then(sound);
    options.budget = 5;
    options.timeout = 10h;
    ComputePool pool(options);
    EXPECT_EQ(node() >> pool, 0);
    EXPECT_EQ(pool.untyped().spec().budget, 5);
    sound.advance(10min);
    EXPECT_EQ(node() >> pool, 0);
    pool.close();
    cost = pool.cost();
  }
  EXPECT_GT(fallback.broken.bill(), 0);
  EXPECT_NEAR(cost.total, fallback.broken.bill() + sound.bill(), 0.001);
  ASSERT_EQ(fallback.bills.size(), 1U);
  const CostFinal& bill = fallback.bills.front();
  EXPECT_DOUBLE_EQ(bill.total_cost, cost.total);
  EXPECT_NEAR(bill.setup_cost + bill.useful_cost + bill.idle_cost + bill.lost_cost, bill.total_cost,
              1e-5);
  EXPECT_GE(bill.hourly_rate, 2);
  EXPECT_GT(bill.ondemand_count, 1);
  for (const double spent : fallback.spent) EXPECT_GT(spent, 0.016) << "a minute at the first one";
}

TEST(FakeCloudForUsers, OneBudgetIsForAllProviders) {
  Fallback fallback(12);  // a minute of a machine in each zone: $0.40
  FakeCloud sound({.prices = {{"cpu", 1.0}}, .speed = 0});
  PoolOptions options = fallback.then(sound);
  options.budget = 1;
  options.timeout = 10h;
  ComputePool pool(options);
  sound.advance(10min);
  EXPECT_EQ(node() >> pool, 0);
  sound.advance(40min);
  ASSERT_LT(sound.bill(), 0.9);
  ASSERT_GT(fallback.broken.bill() + sound.bill(), 1);
  EXPECT_THROW(node() >> pool, BudgetExceededError);
}

TEST(FakeCloudForUsers, TheBillComesWhenTheLastProviderLaunchesNothing) {
  Fallback fallback;
  PoolOptions options = fallback.then(SSH{.hosts = {"192.0.2.1"}});
  options.nodes = 2;
  EXPECT_THROW(ComputePool{options}, AllProvidersFailedError);
  ASSERT_EQ(fallback.bills.size(), 1U);
  EXPECT_NEAR(fallback.bills.front().total_cost, fallback.broken.bill(), 0.001);
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
