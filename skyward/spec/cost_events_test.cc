#include "skyward/spec/cost_events.h"

#include <gtest/gtest.h>

#include <vector>

namespace skyward {
namespace {

using namespace std::chrono_literals;

// A pool's events on a clock of the test's own.
class CostEventsTest : public ::testing::Test {
 protected:
  std::optional<Event> on(Duration at, Event event) {
    return costs_.on_event(event, Time{} + 1h + at);
  }
  static InstanceProvisioned bought(const std::string& id, bool spot) {
    return {.instance_id = id,
            .spot = spot,
            .instance_type = "m5.large",
            .price_on_demand = 3.6,
            .price_spot = 0.36};
  }

  CostEvents costs_;
};

TEST_F(CostEventsTest, TheClockRunsFromTheLaunchToTheEnd) {
  on(0s, InstanceLaunching{});
  on(30s, bought("a", false));
  on(30s, bought("b", true));
  on(30s, ProvisioningCompleted{});
  on(90s, BootstrapCompleted{.instance_id = "a"});
  const auto told = on(100s, Metrics{.instance_id = "a"});
  ASSERT_TRUE(told && std::holds_alternative<CostUpdate>(*told));
  const auto& update = std::get<CostUpdate>(*told);
  EXPECT_DOUBLE_EQ(update.elapsed_seconds, 100);
  EXPECT_DOUBLE_EQ(update.accumulated_cost, 0.1 + 0.01);
  EXPECT_DOUBLE_EQ(update.hourly_rate, 3.96);
  EXPECT_EQ(update.spot_count, 1);
  EXPECT_EQ(update.ondemand_count, 1);

  const auto last = on(200s, PoolStopped{});
  ASSERT_TRUE(last && std::holds_alternative<CostFinal>(*last));
  const auto& total = std::get<CostFinal>(*last);
  EXPECT_DOUBLE_EQ(total.total_cost, 0.22);
  EXPECT_DOUBLE_EQ(total.total_seconds, 200);
  EXPECT_DOUBLE_EQ(total.savings_vs_ondemand, 0.18);
  EXPECT_EQ(total.spot_count, 1);
}

TEST_F(CostEventsTest, AMachineThatIsReplacedCostsUntilThen) {
  on(0s, InstanceLaunching{});
  on(0s, bought("a", false));
  on(0s, ProvisioningCompleted{});
  on(100s, bought("b", false));
  on(200s, InstanceReplaced{.old_instance_id = "a", .new_instance_id = "b"});
  const auto last = on(300s, PoolStopped{});
  ASSERT_TRUE(last);
  EXPECT_DOUBLE_EQ(std::get<CostFinal>(*last).total_cost, 0.2 + 0.2);
}

TEST_F(CostEventsTest, WhatCostsNothingIsNotSpokenOf) {
  on(0s, InstanceLaunching{});
  on(0s, InstanceProvisioned{.instance_id = "a", .instance_type = "local", .price_on_demand = 0.0});
  on(0s, InstanceProvisioned{.instance_id = "b", .instance_type = "unknown"});
  EXPECT_FALSE(on(10s, Metrics{.instance_id = "a"}));
  EXPECT_FALSE(on(20s, PoolStopped{}));
}

TEST_F(CostEventsTest, ALimitIsForeseen) {
  on(0s, InstanceLaunching{});
  on(0s, bought("a", false));
  const Duration until = costs_.reaches(1.8, Time{} + 1h) - (Time{} + 1h);
  EXPECT_NEAR(seconds(until), 1800, 1) << "seconds are billed as whole ones";
  EXPECT_EQ(CostEvents().reaches(1, Time{}), kNever);
}

}  // namespace
}  // namespace skyward
