#include <gtest/gtest.h>

#include <string>

#include "skyward/provider/doubled_deaths_fixture.h"
#include "skyward/provider/runpod/runpod_computer_fixture.h"

namespace skyward::provider::runpod {
namespace {

using RunPodDeaths = DoubledDeaths<RunPodComputer>;

TEST_P(RunPodDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  const std::string row = die_everywhere();
  EXPECT_EQ(violations(), "");
  const auto page = io::read_file(SKYWARD_DOCS "/leaks.md");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_TRUE(page->contains(row)) << "docs/leaks.md does not have this row:\n" << row;
}

INSTANTIATE_TEST_SUITE_P(Faults, RunPodDeaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider::runpod
