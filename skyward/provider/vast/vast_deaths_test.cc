#include <gtest/gtest.h>

#include "skyward/provider/doubled_deaths_fixture.h"
#include "skyward/provider/vast/vast_computer_fixture.h"

namespace skyward::provider::vast {
namespace {

using VastDeaths = DoubledDeaths<VastComputer>;

TEST_P(VastDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("Vast.ai:");
  EXPECT_EQ(violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Faults, VastDeaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider::vast
