#include "skyward/cli/hardware.h"

#include <gtest/gtest.h>

namespace skyward::cli {
namespace {

TEST(AddHardware, NamesItsOptions) {
  PoolSpec spec;
  EXPECT_EQ(add_hardware(spec, {.count = 2}).error().message,
            "--count: there is no --accelerator to count");
  EXPECT_EQ(add_hardware(spec, {.memory = "5"}).error().message, "--memory=\"5\" has no unit");
}

TEST(AddHardware, CountsTheDevicesThatTheModelHas) {
  PoolSpec spec;
  ASSERT_TRUE(add_hardware(spec, {.accelerator = "a100", .cpus = 8, .memory = "32GB"}));
  EXPECT_EQ(spec.accelerator->name, "A100");
  EXPECT_EQ(spec.accelerator->count, 1);
  EXPECT_EQ(spec.cpus, 8);
  EXPECT_EQ(spec.memory_mb, 32768);
  ASSERT_TRUE(add_hardware(spec, {.accelerator = "A100", .count = 4}));
  EXPECT_EQ(spec.accelerator->count, 4);
  ASSERT_TRUE(add_hardware(spec, {.accelerator = "TPUv5p-8"}));
  EXPECT_EQ(spec.accelerator->count, 8);
}

}  // namespace
}  // namespace skyward::cli
