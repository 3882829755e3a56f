#include <gtest/gtest.h>

#include "skyward/provider/doubled_deaths_fixture.h"
#include "skyward/provider/verda/verda_computer_fixture.h"

namespace skyward::provider::verda {
namespace {

using VerdaDeaths = DoubledDeaths<VerdaComputer>;

TEST_P(VerdaDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("Verda:");
  EXPECT_EQ(violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Faults, VerdaDeaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider::verda
