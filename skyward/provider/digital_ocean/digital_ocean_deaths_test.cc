#include <gtest/gtest.h>

#include "skyward/provider/digital_ocean/digital_ocean_computer_fixture.h"
#include "skyward/provider/doubled_deaths_fixture.h"

namespace skyward::provider::digital_ocean {
namespace {

using DropletDeaths = DoubledDeaths<DigitalOceanComputer>;

TEST_P(DropletDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("DigitalOcean:");
  EXPECT_EQ(violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Faults, DropletDeaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider::digital_ocean
