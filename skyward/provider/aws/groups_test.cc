#include "skyward/provider/aws/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "skyward/provider/aws/aws_computer_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::ElementsAre;

// Pools of computers that are thrown away: containers, machines of CI.
class LeftGroups : public ::testing::Test, public AwsComputer {
 protected:
  // The group of such a pool, which its machines keep until they have shut down.
  std::string leave_group() {
    {
      const auto aws = provider();
      const Life life = live(*aws);
      EXPECT_TRUE(life.status) << life.status.error().message;
    }
    forget_pools();
    return amazon_.groups.back().id;
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> out;
    for (const DoubleGroup& group : amazon_.groups) out.push_back(group.id);
    return out;
  }
};

TEST_F(LeftGroups, OfOtherComputersGoWhenTheirPoolsTimeIsOver) {
  const std::string first = leave_group();
  fixture_.now += 10min;  // its machines have shut down, but nobody here knows that it is closed
  const std::string second = leave_group();
  EXPECT_THAT(ids(), ElementsAre(first, second));
  fixture_.now += 2h;
  const std::string third = leave_group();
  EXPECT_THAT(ids(), ElementsAre(third));
}

TEST_F(LeftGroups, OneThatMayNotBeDeletedKeepsNoOther) {
  for (const bool newer : {false, true}) {
    forget();
    const std::string first = leave_group();
    const std::string second = leave_group();
    const std::string kept = newer ? second : first;
    amazon_.refuse = [&kept](const std::string& action, const Ec2Double::Form& form) {
      const bool refused = action == "DeleteSecurityGroup" && form.at("GroupId") == kept;
      return std::pair(refused ? 403 : 0, std::string("UnauthorizedOperation"));
    };
    fixture_.now += 2h;
    const std::string last = leave_group();
    EXPECT_THAT(ids(), ElementsAre(kept, last));
  }
}

}  // namespace
}  // namespace skyward::provider::aws
