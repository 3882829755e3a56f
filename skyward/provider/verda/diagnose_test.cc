#include "skyward/provider/verda/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/provider/verda/verda_computer_fixture.h"

namespace skyward::provider::verda {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

class VerdaDiagnoseTest : public ::testing::Test, public VerdaComputer {
 protected:
  std::vector<Finding> look(const char* region = "") {
    std::vector<Finding> told;
    EXPECT_TRUE(diagnose(
        fixture_.world, {.name = "region", .value = region, .origin = "default"},
        [&](const Finding& one) { told.push_back(one); }, soon()));
    return told;
  }
  static auto bad(const char* what, const char* words) {
    return Contains(AllOf(Field(&Finding::what, what), Field(&Finding::good, false),
                          Field(&Finding::detail, HasSubstr(words)),
                          Field(&Finding::hint, Not(""))));
  }
};

TEST_F(VerdaDiagnoseTest, AllIsWell) {
  const auto told = look();
  EXPECT_THAT(told, Each(Field(&Finding::good, true)));
  EXPECT_THAT(told, Contains(AllOf(Field(&Finding::what, "client secret"),
                                   Field(&Finding::detail, "$VERDA_CLIENT_SECRET"))));
}

TEST_F(VerdaDiagnoseTest, WithoutASecretItSaysWhereItLooked) {
  fixture_.variables.erase("VERDA_CLIENT_SECRET");
  EXPECT_THAT(look(), bad("client secret", "$VERDA_CLIENT_SECRET"));
}

TEST_F(VerdaDiagnoseTest, AWrongSecretShowsWhenSigningIn) {
  fixture_.variables["VERDA_CLIENT_SECRET"] = "another-secret";
  EXPECT_THAT(look(), bad("sign in", ""));
}

TEST_F(VerdaDiagnoseTest, AnEmptyBalanceIsTold) {
  cloud_->dials.balance = "0";
  EXPECT_THAT(look(), bad("balance", "$0.00"));
}

TEST_F(VerdaDiagnoseTest, ABalanceHasItsCurrency) {
  cloud_->dials.answers = {{.method = "GET",
                            .path = "/v1/balance",
                            .status = 200,
                            .body = {{"amount", 12.5}, {"currency", "eur"}}}};
  EXPECT_THAT(look(), Contains(AllOf(Field(&Finding::what, "balance"),
                                     Field(&Finding::detail, "12.50 EUR"))));
}

TEST_F(VerdaDiagnoseTest, ARegionWithoutMachinesIsTold) {
  EXPECT_THAT(look("MARS-01"), bad("machines", "0 types available in MARS-01"));
}

TEST_F(VerdaDiagnoseTest, AClockThatIsWrongIsTold) {
  cloud_->dials.wall_offset = 3h;
  EXPECT_THAT(look(), bad("clock", "180 min slow"));
}

}  // namespace
}  // namespace skyward::provider::verda
