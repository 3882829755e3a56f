#include "skyward/provider/digital_ocean/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/provider/digital_ocean/digital_ocean_computer_fixture.h"

namespace skyward::provider::digital_ocean {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

class DropletDiagnoseTest : public ::testing::Test, public DigitalOceanComputer {
 protected:
  std::vector<Finding> look(const char* region = "nyc1") {
    std::vector<Finding> told;
    EXPECT_TRUE(diagnose(
        fixture_.world, {.name = "region", .value = region, .origin = "default"},
        [&](const Finding& one) { told.push_back(one); }, soon()));
    for (const Finding& one : told) EXPECT_THAT(one.detail, Not(HasSubstr(cloud_->token)));
    return told;
  }
  static auto bad(const char* what, const char* words) {
    return Contains(AllOf(Field(&Finding::what, what), Field(&Finding::good, false),
                          Field(&Finding::detail, HasSubstr(words)),
                          Field(&Finding::hint, Not(""))));
  }
};

TEST_F(DropletDiagnoseTest, AllIsWell) {
  const auto told = look();
  EXPECT_THAT(told, Each(Field(&Finding::good, true)));
  EXPECT_THAT(told, Contains(AllOf(Field(&Finding::what, "token"),
                                   Field(&Finding::detail, "$DIGITALOCEAN_TOKEN"))));
}

TEST_F(DropletDiagnoseTest, ATokenThatMayNotReadFirewallsIsTold) {
  cloud_->tokens[cloud_->token] = {"account:read", "droplet:read", "ssh_key:read", "tag:read",
                                   "sizes:read"};
  EXPECT_THAT(look(), bad("firewall:read", ""));
}

TEST_F(DropletDiagnoseTest, WithoutATokenItSaysWhereItLooked) {
  fixture_.variables.erase("DIGITALOCEAN_TOKEN");
  fixture_.variables.erase("DIGITALOCEAN_ACCESS_TOKEN");
  EXPECT_THAT(look(), bad("token", "$DIGITALOCEAN_TOKEN"));
}

TEST_F(DropletDiagnoseTest, AWrongTokenIsToldAtTheAccount) {
  cloud_->tokens.clear();
  EXPECT_THAT(look(), bad("account", ""));
}

TEST_F(DropletDiagnoseTest, ARegionWithoutMachinesIsTold) {
  EXPECT_THAT(look("mars1"), bad("machines", "0 types in mars1"));
}

TEST_F(DropletDiagnoseTest, AClockThatIsWrongIsTold) {
  cloud_->dials.wall_offset = 3h;
  EXPECT_THAT(look(), bad("clock", "180 min slow"));
}

}  // namespace
}  // namespace skyward::provider::digital_ocean
