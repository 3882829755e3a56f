#include "skyward/provider/aws/diagnose.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "skyward/provider/aws/aws_computer_fixture.h"
#include "skyward/provider/docs_pages_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;

// The rights of the policy in the guide.
std::set<std::string> documented_rights() {
  const std::string page = docs_page("guide/aws.md");
  const std::size_t begin = page.find("```json\n") + 8;
  const auto policy =
      nlohmann::json::parse(page.substr(begin, page.find("```", begin) - begin), nullptr, false);
  EXPECT_TRUE(policy.is_object()) << "the policy of the guide is no JSON";
  std::set<std::string> out;
  for (const auto& statement : policy["Statement"]) {
    for (const auto& action : statement["Action"]) out.insert(action.get<std::string>());
  }
  return out;
}

class Diagnosis : public ::testing::Test, public AwsComputer {
 protected:
  std::map<std::string, Finding> look() {
    std::map<std::string, Finding> told;
    const Status status = diagnose(
        fixture_.world, {.name = "region", .value = "eu-west-1", .origin = "default"},
        [&](const Finding& finding) { told[finding.what] = finding; }, soon());
    EXPECT_TRUE(status);
    return told;
  }
  std::set<std::string> not_good() {
    std::set<std::string> out;
    for (const auto& [what, finding] : look()) {
      if (!finding.good) out.insert(what);
    }
    return out;
  }
};

TEST_F(Diagnosis, KnowsEveryRightOfThePolicy) {
  EXPECT_THAT(not_good(), IsEmpty());
  const auto told = look();
  for (const std::string& right : documented_rights()) {
    ASSERT_TRUE(told.contains(right)) << right << " is not asked for";
    EXPECT_EQ(told.at(right).detail, "allowed") << right;
  }
  EXPECT_GT(documented_rights().size(), 15U);
  EXPECT_THAT(amazon_.instances, IsEmpty());
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

TEST_F(Diagnosis, NamesTheOneThatIsMissing) {
  for (const std::string& right : documented_rights()) {
    SCOPED_TRACE(right);
    amazon_.missing = {right};
    fixture_.now += 10s;  // not faster than Amazon lets anybody ask
    const auto missing = not_good();
    EXPECT_TRUE(missing.contains(right));
    EXPECT_THAT(missing, SizeIs(1));
  }
}

TEST_F(Diagnosis, AsksForMachinesAsPoolsDo) {
  std::set<std::string> asked;
  std::set<std::string> launched;
  amazon_.refuse = [&](const std::string& action, const Ec2Double::Form& form) {
    for (const auto& [name, value] : form) {
      if (action == "RunInstances") (form.contains("DryRun") ? asked : launched).insert(name);
    }
    return std::pair(0, std::string());
  };
  (void)look();
  {
    const auto aws = provider();
    ASSERT_TRUE(live(*aws).status);
  }
  launched.erase("NetworkInterface.1.SecurityGroupId.1");  // there is none yet
  EXPECT_THAT(asked, IsSupersetOf(launched));
}

TEST_F(Diagnosis, AsksWithTheSettingsOfPools) {
  fixture_.variables.insert({{"SKYWARD_AWS_SUBNET_ID", "s2"},
                             {"SKYWARD_AWS_PRIVATE_ADDRESSES", "true"},
                             {"SKYWARD_AWS_SECURITY_GROUP_ID", "sg-mine"},
                             {"SKYWARD_AWS_INSTANCE_PROFILE_ARN", "arn:profile"},
                             {"SKYWARD_AWS_AMI", "ami-mine"}});
  amazon_.replies["DescribeSubnets"] =
      "<subnetSet><item><subnetId>s2</subnetId><availabilityZone>z2</availabilityZone>"
      "<vpcId>vpc-2</vpcId></item></subnetSet>";
  amazon_.replies["DescribeImages"] =
      "<imagesSet><item><imageId>ami-mine</imageId><name>al2023</name>"
      "<rootDeviceName>/dev/xvda</rootDeviceName></item></imagesSet>";
  Ec2Double::Form asked;
  amazon_.refuse = [&](const std::string& action, const Ec2Double::Form& form) {
    if (action == "RunInstances") asked = form;
    return std::pair(0, std::string());
  };
  EXPECT_THAT(not_good(), IsEmpty());
  EXPECT_EQ(asked["NetworkInterface.1.SubnetId"], "s2");
  EXPECT_EQ(asked["NetworkInterface.1.AssociatePublicIpAddress"], "false");
  EXPECT_EQ(asked["NetworkInterface.1.SecurityGroupId.1"], "sg-mine");
  EXPECT_EQ(asked["IamInstanceProfile.Arn"], "arn:profile");
  EXPECT_EQ(asked["ImageId"], "ami-mine");
  EXPECT_EQ(asked["BlockDeviceMapping.1.DeviceName"], "/dev/xvda");
}

TEST_F(Diagnosis, NeedsNoDefaultNetworkWhereASubnetIsNamed) {
  amazon_.replies["DescribeVpcs"] = "";
  EXPECT_THAT(not_good(), ElementsAre("default network"));
  fixture_.variables["SKYWARD_AWS_SUBNET_ID"] = "s1";
  EXPECT_THAT(not_good(), IsEmpty());
  amazon_.replies["DescribeSubnets"] = "";
  EXPECT_THAT(not_good(), ElementsAre("subnet"));
}

TEST_F(Diagnosis, NamesWhatIsMissingWhereTagsAreRequired) {
  amazon_.refuse = [](const std::string& action, const Ec2Double::Form& form) {
    const bool bare = action == "RunInstances" && !form.contains("TagSpecification.1.Tag.1.Key");
    return std::pair(bare ? 403 : 0, std::string("UnauthorizedOperation"));
  };
  EXPECT_THAT(not_good(), IsEmpty());
}

TEST_F(Diagnosis, AsksWithOwnTagsWhereAPolicyDemandsThem) {
  amazon_.refuse = [](const std::string& action, const Ec2Double::Form& form) {
    const bool creates = action == "RunInstances" || action == "CreateSecurityGroup";
    const bool tagged = std::ranges::any_of(form, [](const auto& one) {
      return one.first.ends_with(".Key") && one.second == "CostCenter";
    });
    return std::pair(creates && !tagged ? 403 : 0, std::string("UnauthorizedOperation"));
  };
  EXPECT_THAT(not_good(), ElementsAre("ec2:CreateSecurityGroup", "ec2:RunInstances"));
  fixture_.variables["SKYWARD_AWS_TAGS"] = "CostCenter=1234";
  EXPECT_THAT(not_good(), IsEmpty());
}

TEST_F(Diagnosis, TellsThatTheFirstSpotMachineNeedsARole) {
  amazon_.refuse = [](const std::string&, const Ec2Double::Form& form) {
    return form.contains("InstanceMarketOptions.MarketType")
               ? std::pair(403, std::string("AuthFailure.ServiceLinkedRoleCreationNotPermitted"))
               : std::pair(0, std::string());
  };
  const auto told = look();
  EXPECT_FALSE(told.at("spot machines").good);
  EXPECT_THAT(told.at("spot machines").hint, HasSubstr("iam:CreateServiceLinkedRole"));
}

}  // namespace
}  // namespace skyward::provider::aws
