#include <gtest/gtest.h>

#include "skyward/provider/doubled_computers_fixture.h"
#include "skyward/provider/doubled_deaths_fixture.h"

namespace skyward::provider {
namespace {

using DropletDeaths = DoubledDeaths<digital_ocean::DigitalOceanComputer>;
using RunPodDeaths = DoubledDeaths<runpod::RunPodComputer>;
using VastDeaths = DoubledDeaths<vast::VastComputer>;
using VerdaDeaths = DoubledDeaths<verda::VerdaComputer>;

TEST_P(DropletDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("DigitalOcean:");
  EXPECT_EQ(violations(), "");
}
TEST_P(RunPodDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("RunPod:");
  EXPECT_EQ(violations(), "");
}
TEST_P(VastDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("Vast.ai:");
  EXPECT_EQ(violations(), "");
}
TEST_P(VerdaDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("Verda:");
  EXPECT_EQ(violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Faults, DropletDeaths, ::testing::ValuesIn(death_faults()), death_name);
INSTANTIATE_TEST_SUITE_P(Faults, RunPodDeaths, ::testing::ValuesIn(death_faults()), death_name);
INSTANTIATE_TEST_SUITE_P(Faults, VastDeaths, ::testing::ValuesIn(death_faults()), death_name);
INSTANTIATE_TEST_SUITE_P(Faults, VerdaDeaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider
