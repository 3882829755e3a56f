// What a user reads when something is wrong that no retry mends: what failed, where, why in
// Amazon's words, what to do next; and nothing is left behind.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "skyward/provider/aws/aws_computer_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Wrong {
  const char* name;
  std::function<void(AwsComputer&)> arrange;
  ErrorKind kind;
  const char* what;
  const char* where;
  const char* why;
  const char* next;
};

std::function<void(AwsComputer&)> refusing(std::string wanted, std::string code) {
  return [=](AwsComputer& computer) {
    computer.amazon_.refuse = [=](const std::string& action, const Ec2Double::Form&) {
      return wanted.empty() || action == wanted ? std::pair(400, code)
                                                : std::pair(0, std::string());
    };
  };
}

std::function<void(AwsComputer&)> answering(std::string action, std::string body) {
  return [=](AwsComputer& computer) { computer.amazon_.replies[action] = body; };
}

// Machines end while they start.
std::function<void(AwsComputer&)> dying(std::string code, std::string message,
                                        Spot spot = Spot::Never()) {
  return [=](AwsComputer& computer) {
    computer.spec_.spot = spot;
    computer.amazon_.stillborn = code;
    computer.amazon_.stillborn_message = message;
  };
}

std::function<void(AwsComputer&)> setting(std::string name, std::string value) {
  return [=](AwsComputer& computer) { computer.spec_.provider.settings[name] = value; };
}

class Wrongs : public ::testing::TestWithParam<Wrong>, public AwsComputer {
 protected:
  // Whatever a life has left where it stopped.
  void expect_nothing_left() {
    EXPECT_EQ(amazon_.standing(), 0);
    amazon_.refuse = nullptr;
    amazon_.stillborn.clear();
    let_go();
    EXPECT_THAT(amazon_.groups, IsEmpty());
    let_go();
    EXPECT_THAT(open_pools(), IsEmpty());
  }
};

TEST_P(Wrongs, AreToldWithWhatWhereWhyAndNext) {
  const Wrong& wrong = GetParam();
  wrong.arrange(*this);
  Status status;
  {
    const auto aws = provider();
    status = live(*aws).status;
  }
  ASSERT_FALSE(status);
  const Error& error = status.error();
  EXPECT_EQ(error.kind, wrong.kind) << to_string(error.kind);
  EXPECT_THAT(error.message, HasSubstr(wrong.what));
  EXPECT_THAT(error.message, HasSubstr(wrong.where));
  EXPECT_THAT(error.message, HasSubstr(wrong.why));
  EXPECT_THAT(error.hint, HasSubstr(wrong.next));
  EXPECT_FALSE(error.message.contains("secret"));
  if (error.kind == ErrorKind::invalid) {
    EXPECT_LE(std::ranges::count(amazon_.actions, "RunInstances"), 1) << "no other place mends it";
  }
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, Wrongs,
    ::testing::Values(
        Wrong{"ExpiredCredentials", refusing("", "ExpiredToken"), ErrorKind::denied,
              "DescribeInstanceTypes", "eu-west-1", "ExpiredToken", "renew the credentials"},
        Wrong{"CredentialsThatExpireMeanwhile", refusing("RunInstances", "ExpiredToken"),
              ErrorKind::denied, "RunInstances", "eu-west-1", "ExpiredToken",
              "renew the credentials"},
        Wrong{"NoRights", refusing("RunInstances", "UnauthorizedOperation"), ErrorKind::denied,
              "RunInstances", "eu-west-1", "UnauthorizedOperation", "skyward providers check aws"},
        Wrong{"APolicyOfTheOrganisation",
              refusing("RunInstances",
                       "UnauthorizedOperation: You are not authorized to perform this operation. "
                       "User: arn:aws:iam::1:user/me is not authorized to perform: "
                       "ec2:RunInstances with an explicit deny in a service control policy. "
                       "Encoded authorization failure message: secret"),
              ErrorKind::denied, "RunInstances", "eu-west-1", "a service control policy.",
              "ask an administrator for an exception"},
        Wrong{"NoDefaultNetwork", answering("DescribeVpcs", ""), ErrorKind::invalid,
              "no default network", "eu-west-1", "no default network", "create-default-vpc"},
        Wrong{"NoSubnets", answering("DescribeSubnets", ""), ErrorKind::invalid, "default network",
              "eu-west-1", "no subnet", "create-default-subnet"},
        Wrong{"AQuotaOfNothing", refusing("RunInstances", "VcpuLimitExceeded"),
              ErrorKind::exhausted, "quota does not allow 2 more machines", "eu-west-1",
              "VcpuLimitExceeded", "also other people's"},
        Wrong{"AnUnknownRegion", setting("region", "eu-west-9"), ErrorKind::unavailable,
              "DescribeInstanceTypes", "eu-west-9", "Could not resolve host", "name of the region"},
        Wrong{"AnUnknownType",
              [](AwsComputer& computer) { computer.spec_.machine = "m5.gigantic"; },
              ErrorKind::invalid, "m5.gigantic", "eu-west-1", "not offered", "skyward offers list"},
        Wrong{"AGroupThatIsGone",
              [](AwsComputer& computer) {
                setting("security_group_id", "sg-gone")(computer);
                refusing("RunInstances", "InvalidGroup.NotFound")(computer);
              },
              ErrorKind::invalid, "RunInstances", "eu-west-1", "InvalidGroup.NotFound",
              "leave security_group_id out"},
        Wrong{"AnImageThatIsGone",
              [](AwsComputer& computer) {
                setting("ami", "ami-gone")(computer);
                refusing("DescribeImages", "InvalidAMIID.NotFound")(computer);
              },
              ErrorKind::invalid, "DescribeImages", "eu-west-1", "InvalidAMIID.NotFound",
              "images belong to one region"},
        Wrong{"ASubnetThatIsGone",
              [](AwsComputer& computer) {
                setting("subnet_id", "subnet-gone")(computer);
                refusing("DescribeSubnets", "InvalidSubnetID.NotFound")(computer);
              },
              ErrorKind::invalid, "DescribeSubnets", "eu-west-1", "InvalidSubnetID.NotFound",
              "subnets belong to one region"},
        Wrong{"OneOfTwoSubnetsThatIsGone", setting("subnet_id", "s1,subnet-gone"),
              ErrorKind::invalid, "there is no subnet subnet-gone", "eu-west-1", "subnet-gone",
              "subnets belong to one region"},
        Wrong{"SubnetsOfTwoNetworks",
              [](AwsComputer& computer) {
                setting("subnet_id", "s1,s3")(computer);
                answering("DescribeSubnets",
                          "<subnetSet><item><subnetId>s1</subnetId><availabilityZone>z1"
                          "</availabilityZone><vpcId>vpc-1</vpcId></item><item><subnetId>s3"
                          "</subnetId><availabilityZone>z2</availabilityZone><vpcId>vpc-3</vpcId>"
                          "</item></subnetSet>")(computer);
              },
              ErrorKind::invalid, "s1 and s3", "eu-west-1", "vpc-1 and vpc-3",
              "give subnets of one VPC"},
        Wrong{"AClockThatIsWrong", refusing("", "RequestExpired"), ErrorKind::denied,
              "DescribeInstanceTypes", "eu-west-1", "RequestExpired", "or set the clock"},
        Wrong{"ARegionThatIsNotEnabled", refusing("", "AuthFailure"), ErrorKind::denied,
              "DescribeInstanceTypes", "eu-west-1", "AuthFailure",
              "the region is not enabled for the account"},
        Wrong{"ARegionThatIsNotEnabledToldBySTS",
              refusing("GetCallerIdentity", "InvalidClientTokenId"), ErrorKind::denied,
              "STS GetCallerIdentity", "eu-west-1", "InvalidClientTokenId",
              "the region is not enabled for the account"},
        Wrong{"AKeyThatDisksMayNotUse",
              dying("Client.InternalError", "Client.InternalError: Client error on launch"),
              ErrorKind::invalid, "m5.large", "z1", "Client error on launch", "kms:CreateGrant"},
        Wrong{"AKeyThatDisksMayNotUseInTheGuidesForm",
              dying("Server.InternalError", "Client.InternalError: Client error on launch"),
              ErrorKind::invalid, "m5.large", "z1", "Client error on launch", "kms:CreateGrant"},
        Wrong{"AKeyThatDisksOfSpotMachinesMayNotUse",
              dying("Server.InternalError", "Client.InternalError: Client error on launch",
                    Spot::Always()),
              ErrorKind::invalid, "m5.large", "z1", "Client error on launch",
              "AWSServiceRoleForEC2Spot"},
        Wrong{"AKeyInAWrongState",
              dying("Client.InvalidKMSKey.InvalidState",
                    "The KMS key provided is in an incorrect state"),
              ErrorKind::invalid, "m5.large", "z1", "in an incorrect state", "kms:CreateGrant"},
        Wrong{"DisksBeyondTheQuota", dying("Client.VolumeLimitExceeded", "Volume limit exceeded"),
              ErrorKind::invalid, "m5.large", "z1", "Volume limit exceeded", "Service Quotas"},
        Wrong{"DisksBeyondTheQuotaInTheGuidesForm",
              dying("Server.InternalError", "Client.VolumeLimitExceeded: Volume limit exceeded"),
              ErrorKind::invalid, "m5.large", "z1", "Volume limit exceeded", "Service Quotas"},
        Wrong{"AShortageAtTheLaunch", dying("Server.InsufficientInstanceCapacity", ""),
              ErrorKind::exhausted, "no capacity for 2 machines", "eu-west-1",
              "Server.InsufficientInstanceCapacity", "try later"},
        Wrong{"ASubnetWithoutAddresses",
              refusing("RunInstances", "InsufficientFreeAddressesInSubnet"), ErrorKind::exhausted,
              "no capacity for 2 machines", "eu-west-1", "InsufficientFreeAddressesInSubnet",
              "choose another subnet"},
        Wrong{"ABidBelowThePrice",
              [](AwsComputer& computer) {
                computer.spec_.spot = Spot::Always();
                refusing("RunInstances", "SpotMaxPriceTooLow")(computer);
              },
              ErrorKind::exhausted, "no capacity for 2 spot machines", "eu-west-1",
              "SpotMaxPriceTooLow", "raise the limit"},
        Wrong{"AConfigurationThatIsNotSupported",
              refusing("RunInstances",
                       "Unsupported: The requested configuration is currently not supported."),
              ErrorKind::exhausted, "no capacity for 2 machines", "eu-west-1",
              "Unsupported: The requested configuration is currently not supported",
              "choose another type, zone or image"},
        Wrong{"AnAccountOfTheFreePlan",
              refusing("RunInstances",
                       "InvalidParameterCombination: The specified instance type is not eligible "
                       "for Free Tier."),
              ErrorKind::exhausted, "no capacity for 2 machines", "eu-west-1",
              "InvalidParameterCombination", "free plan"},
        Wrong{"AnImageOfWindows",
              [](AwsComputer& computer) {
                setting("ami", "ami-1")(computer);
                answering("DescribeImages",
                          "<imagesSet><item><imageId>ami-1</imageId><name>w</name>"
                          "<platform>windows</platform></item></imagesSet>")(computer);
              },
              ErrorKind::invalid, "ami-1", "eu-west-1", "a Windows image", "cloud-init"},
        Wrong{"ABudgetForAnImageOfUnknownPrice",
              [](AwsComputer& computer) {
                setting("ami", "ami-1")(computer);
                computer.spec_.budget = 5;
                answering("DescribeImages",
                          "<imagesSet><item><imageId>ami-1</imageId><name>w</name>"
                          "<platformDetails>Red Hat Enterprise Linux</platformDetails></item>"
                          "</imagesSet>")(computer);
              },
              ErrorKind::invalid, "ami-1", "eu-west-1", "Red Hat Enterprise Linux", "Linux/UNIX"},
        Wrong{"ABudgetForAnImageOfTheMarketplace",
              [](AwsComputer& computer) {
                setting("ami", "ami-1")(computer);
                computer.spec_.budget = 5;
                answering("DescribeImages",
                          "<imagesSet><item><imageId>ami-1</imageId><name>w</name>"
                          "<platformDetails>Linux/UNIX</platformDetails><productCodes><item>"
                          "<productCode>abc</productCode><type>marketplace</type></item>"
                          "</productCodes></item></imagesSet>")(computer);
              },
              ErrorKind::invalid, "ami-1", "eu-west-1", "AWS Marketplace, whose fee",
              "leave the limit out"},
        Wrong{"AnAcceleratorTooOldForTheImage",
              [](AwsComputer& computer) {
                computer.spec_.accelerator = *catalogue_accelerator("V100");
              },
              ErrorKind::invalid, "V100", "", "proprietary driver", "ami="},
        Wrong{"AnAcceleratorOfAMD",
              [](AwsComputer& computer) {
                computer.spec_.accelerator = *catalogue_accelerator("RadeonPro-V520");
              },
              ErrorKind::invalid, "RadeonPro-V520", "", "an image with its driver", "ami="},
        Wrong{"AnAcceleratorOfAmazon",
              [](AwsComputer& computer) {
                computer.spec_.accelerator = *catalogue_accelerator("Inferentia2");
              },
              ErrorKind::invalid, "Inferentia2", "", "Neuron's driver", "ami="},
        Wrong{"AShareOfAnAccelerator",
              [](AwsComputer& computer) {
                computer.spec_.accelerator = *catalogue_accelerator("L4", {.count = 0.25});
              },
              ErrorKind::invalid, "L4", "", "GRID", "ami="},
        Wrong{"AMachineTooOldForTheImage",
              [](AwsComputer& computer) {
                computer.spec_.machine = "p3.2xlarge";
                answering(
                    "DescribeInstanceTypes",
                    "<instanceTypeSet><item><instanceType>p3.2xlarge</instanceType><vCpuInfo>"
                    "<defaultVCpus>8</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>62464"
                    "</sizeInMiB></memoryInfo><supportedUsageClasses><item>on-demand</item>"
                    "</supportedUsageClasses><processorInfo><supportedArchitectures><item>"
                    "x86_64</item><item>arm64</item></supportedArchitectures></processorInfo>"
                    "<gpuInfo><gpus><item><name>V100</name><manufacturer>NVIDIA"
                    "</manufacturer><count>1</count><memoryInfo><sizeInMiB>16384</sizeInMiB>"
                    "</memoryInfo></item></gpus></gpuInfo></item></instanceTypeSet>")(computer);
              },
              ErrorKind::invalid, "V100", "", "proprietary driver", "ami="},
        Wrong{"NonsenseForAReply", answering("DescribeInstanceTypes", "<p>Bad day<br>"),
              ErrorKind::unavailable, "DescribeInstanceTypes", "eu-west-1", "XML", "try again"}),
    [](const auto& made) { return std::string(made.param.name); });

// Replies with letters changed, cut out, doubled: a life may end well or badly, and leaves nothing.
class Fuzzed : public ::testing::Test, public AwsComputer {
 protected:
  static std::string spoilt(std::string body, std::mt19937& random) {
    const auto below = [&](std::size_t limit) {
      return limit == 0 ? 0 : random() % static_cast<std::mt19937::result_type>(limit);
    };
    for (std::size_t times = 1 + below(4); times > 0; --times) {
      const std::size_t at = below(body.size() + 1);
      const std::size_t length = std::min<std::size_t>(below(40), body.size() - at);
      switch (below(4)) {
        case 0:
          if (at < body.size()) body[at] = static_cast<char>(random());
          break;
        case 1:
          body.erase(at, length);
          break;
        case 2:
          body.insert(at, body.substr(at, length));
          break;
        default:
          body.insert(at, std::string(1 + below(3), "<>&/\"0"[below(6)]));
      }
    }
    return body;
  }
};

TEST_F(Fuzzed, RepliesLeaveNothing) {
  {
    const auto aws = provider();
    ASSERT_TRUE(live(*aws).status);
  }
  const int all = amazon_.requests;
  int failed = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    forget();
    std::mt19937 random(seed);
    const int at = 1 + static_cast<int>(random() % static_cast<unsigned>(all));
    amazon_.mangle = [&](io::HttpReply& reply) {
      if (amazon_.requests == at) reply.body = spoilt(reply.body, random);
    };
    {
      const auto aws = provider();
      const Life life = live(*aws);
      if (!life.status) {
        ++failed;
        EXPECT_FALSE(life.status.error().message.empty());
      }
    }
    amazon_.mangle = nullptr;
    (void)gc();
    EXPECT_EQ(amazon_.standing(), 0);
    fixture_.now += 1800s;
    (void)gc();
    let_go();
    EXPECT_THAT(amazon_.groups, IsEmpty());
    let_go();
    EXPECT_THAT(open_pools(), IsEmpty());
  }
  EXPECT_GT(failed, 20) << "the spoilt replies did not matter";
}

}  // namespace
}  // namespace skyward::provider::aws
