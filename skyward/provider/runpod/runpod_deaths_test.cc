#include <gtest/gtest.h>

#include "skyward/provider/doubled_deaths_fixture.h"
#include "skyward/provider/runpod/runpod_computer_fixture.h"

namespace skyward::provider::runpod {
namespace {

using RunPodDeaths = DoubledDeaths<RunPodComputer>;

TEST_P(RunPodDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("RunPod:");
  EXPECT_EQ(violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Faults, RunPodDeaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider::runpod
