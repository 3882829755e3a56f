#include <gtest/gtest.h>

#include <string>

#include "skyward/provider/aws/aws_computer_fixture.h"
#include "skyward/provider/deaths_fixture.h"

namespace skyward::provider::aws {
namespace {

class Deaths : public DeathsFixture<AwsComputer> {
 protected:
  void set_fault(const DeathFault& fault) override {
    amazon_.listing_lag = fault.lag;
    if (fault.lost) amazon_.lose_reply = [this](const auto&) { return amazon_.requests % 2 == 0; };
    if (fault.throttled || fault.broken) {
      amazon_.refuse = [this, &fault](const auto&, const auto&) {
        if (amazon_.requests % 2 != 0) return std::pair(0, std::string());
        return fault.broken ? std::pair(500, std::string("InternalError"))
                            : std::pair(503, std::string("RequestLimitExceeded"));
      };
    }
  }
  void die_at_request(int before, int after) override {
    amazon_.die_before = before;
    amazon_.die_after = after;
  }
  int requests() override { return amazon_.requests; }
  int machines() override { return amazon_.standing(); }
  int others() override { return static_cast<int>(amazon_.groups.size()); }
};

TEST_P(Deaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("## Amazon, with one fault at a time");
}

INSTANTIATE_TEST_SUITE_P(Faults, Deaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider::aws
