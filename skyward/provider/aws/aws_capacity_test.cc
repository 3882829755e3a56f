// Markets with as many machines as a test says: the strategies of spot machines, with their tries
// and pauses, and the regions that are asked when one has none. Nothing is ever left.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "skyward/provider/aws/aws_computer_fixture.h"
#include "skyward/spec/shortage.h"

namespace skyward::provider::aws {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Capacity : public ::testing::Test, public AwsComputer {
 protected:
  Capacity() {
    spec_.nodes = 4;
    amazon_.refuse = [this](const std::string& action, const Ec2Double::Form& form) {
      if (action == "GetProducts" && price_list_refuses) {
        return std::pair(400, std::string("AccessDeniedException"));
      }
      if (action == "DescribeImages" && form.at("region") == region_without_image) {
        return std::pair(400, std::string("InvalidAMIID.NotFound"));
      }
      if (action != "RunInstances") return std::pair(0, std::string());
      const bool spot = form.contains("InstanceMarketOptions.MarketType");
      const std::string zone = form.at("NetworkInterface.1.SubnetId") == "s1" ? "z1" : "z2";
      const int count = std::stoi(form.at("MaxCount"));
      asked.push_back(
          fmt::format("{}{} {}/{}", count, spot ? " spot" : "", form.at("region"), zone));
      if (quota) return std::pair(400, std::string("VcpuLimitExceeded"));
      if (spot && !spot_role) {
        return std::pair(403, std::string("AuthFailure.ServiceLinkedRoleCreationNotPermitted"));
      }
      const int here = standing_in(form.at("region"), zone, spot);
      const bool fits = here + count <= market(form.at("region"), zone, spot);
      return fits ? std::pair(0, std::string())
                  : std::pair(500, std::string("InsufficientInstanceCapacity"));
    };
  }
  ~Capacity() override {
    EXPECT_EQ(amazon_.standing(), 0);
    let_go();
    EXPECT_THAT(amazon_.groups, IsEmpty());
    let_go();
    EXPECT_THAT(open_pools(), IsEmpty());
  }

  int standing_in(const std::string& region, const std::string& zone, bool spot) {
    int count = 0;
    for (const DoubleInstance& one : amazon_.instances) {
      count += one.region == region && one.zone == zone && one.spot == spot && one.ended == kNever;
    }
    return count;
  }

  // As the engine opens a pool: what has no machines is released, and offers are asked for again.
  // The pool is closed at once.
  Result<std::vector<Instance>> open() {
    const auto aws = provider();
    Error last;
    for (int tries = 0; tries < 4; ++tries) {
      const auto offers = aws->offers(spec_, soon());
      if (!offers) return tries == 0 ? fail(offers) : std::unexpected(last);
      const auto cluster = aws->prepare(spec_, offers->front(), soon());
      if (!cluster && tries > 0) continue;
      if (!cluster) return fail(cluster);
      auto instances = aws->provision(*cluster, spec_.nodes, 0, soon());
      EXPECT_EQ(amazon_.standing(), instances ? spec_.nodes : 0) << "a partial fleet";
      EXPECT_TRUE(aws->teardown(*cluster, soon()));
      if (instances || instances.error().kind != ErrorKind::exhausted) return instances;
      if (tries == 0) last = instances.error();
    }
    return std::unexpected(last);
  }
  Shortage shortage_of_opening() {
    const auto instances = open();
    EXPECT_FALSE(instances);
    if (instances) return {};
    EXPECT_EQ(instances.error().kind, ErrorKind::exhausted);
    EXPECT_FALSE(instances.error().hint.empty());
    const auto shortage = shortage_of(instances.error());
    EXPECT_TRUE(shortage) << instances.error().message;
    return shortage.value_or(Shortage{});
  }
  int pauses_of(Duration duration) const {
    return static_cast<int>(std::ranges::count(fixture_.pauses, duration));
  }

  std::function<int(const std::string& region, const std::string& zone, bool spot)> market =
      [](const auto&, const auto&, bool) { return 0; };
  bool quota = false;
  bool spot_role = true;            // the account may have spot machines
  bool price_list_refuses = false;  // then those that ship with Skyward are taken in us-east-1
  std::string region_without_image;
  std::vector<std::string> asked;
};

TEST_F(Capacity, AlwaysTriesAsOftenAsItSaysAndThenNamesTheShortage) {
  spec_.spot = Spot::Always(3, 7s);
  market = [](const auto&, const auto&, bool spot) { return spot ? 3 : 100; };
  const Shortage shortage = shortage_of_opening();
  EXPECT_EQ(shortage.kind, ShortageKind::spot_capacity);
  EXPECT_EQ(shortage.requested, 4);
  EXPECT_EQ(shortage.got, 0) << "three of four are not launched";
  EXPECT_EQ(shortage.region, "eu-west-1");
  EXPECT_EQ(shortage.instance_type, "m5.large");
  EXPECT_THAT(shortage.offers, ElementsAre("m5.large in eu-west-1"));
  EXPECT_THAT(asked,
              ElementsAre("4 spot eu-west-1/z1", "4 spot eu-west-1/z2", "4 spot eu-west-1/z1",
                          "4 spot eu-west-1/z2", "4 spot eu-west-1/z1", "4 spot eu-west-1/z2"));
  EXPECT_EQ(pauses_of(7s), 2);
}

TEST_F(Capacity, AlwaysTakesWhatComesBackInBetween) {
  spec_.spot = Spot::Always(10, 1s);
  market = [this](const auto&, const auto&, bool) { return asked.size() > 4 ? 4 : 0; };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  for (const Instance& one : *instances) EXPECT_TRUE(one.spot);
  EXPECT_EQ(asked.size(), 5U);
}

TEST_F(Capacity, IfAvailableTakesAllOfTheOtherMarket) {
  spec_.spot = Spot::IfAvailable(2, 1s);
  market = [](const auto&, const auto&, bool spot) { return spot ? 3 : 4; };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  for (const Instance& one : *instances) EXPECT_FALSE(one.spot);
  EXPECT_EQ(asked.back(), "4 eu-west-1/z1");
  EXPECT_EQ(asked.size(), 5U);
}

TEST_F(Capacity, IfAvailableWithoutAnyIsNoShortageOfSpotMachines) {
  spec_.spot = Spot::IfAvailable(1, 1s);
  EXPECT_EQ(shortage_of_opening().kind, ShortageKind::capacity);
}

TEST_F(Capacity, NeverLaunchesNoSpotMachine) {
  market = [](const auto&, const auto&, bool spot) { return spot ? 100 : 3; };
  const Shortage shortage = shortage_of_opening();
  EXPECT_EQ(shortage.kind, ShortageKind::capacity);
  EXPECT_EQ(shortage.requested, 4);
  EXPECT_THAT(asked, ElementsAre("4 eu-west-1/z1", "4 eu-west-1/z2"));
}

TEST_F(Capacity, AShareIsFilledUpInTheSameZone) {
  spec_.spot = Spot::Percent(0.5);
  market = [](const auto&, const auto& zone, bool spot) {
    return spot ? (zone == "z2" ? 3 : 0) : 2;
  };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  EXPECT_EQ(std::ranges::count_if(*instances, &Instance::spot), 2);
  EXPECT_EQ(asked.back(), "2 eu-west-1/z2");
}

TEST_F(Capacity, AShareThatIsNotMetNamesItsLeast) {
  spec_.spot = Spot::Percent(0.6);
  market = [](const auto&, const auto&, bool spot) { return spot ? 2 : 100; };
  const Shortage shortage = shortage_of_opening();
  EXPECT_EQ(shortage.kind, ShortageKind::spot_minimum);
  EXPECT_EQ(shortage.requested, 3) << "0.6 of 4, rounded up";
  EXPECT_EQ(shortage.got, 0);
}

TEST_F(Capacity, AShareWhoseRestIsMissingIsGivenBackAndTold) {
  spec_.spot = Spot::Percent(0.5);
  market = [](const auto&, const auto&, bool spot) { return spot ? 3 : 1; };
  const Shortage shortage = shortage_of_opening();
  EXPECT_EQ(shortage.kind, ShortageKind::capacity) << "the share was there";
  EXPECT_EQ(shortage.requested, 4);
  EXPECT_EQ(shortage.got, 2);
}

TEST_F(Capacity, MachinesOnDemandThatCostTooMuchAreNotLaunched) {
  amazon_.regions = {"us-east-1"};
  fixture_.variables["AWS_REGION"] = "us-east-1";
  spec_.provider.settings["region"] = "us-east-1";
  spec_.max_hourly_cost = 0.2;  // four of them as spot machines: $0.14; on demand: $0.404
  for (const Spot& spot : {Spot::IfAvailable(1, 1s), Spot::Percent(0.5)}) {
    spec_.spot = spot;
    asked.clear();
    market = [](const auto&, const auto&, bool is_spot) { return is_spot ? 3 : 100; };
    price_list_refuses = true;
    const auto instances = open();
    ASSERT_FALSE(instances);
    EXPECT_EQ(instances.error().kind, ErrorKind::exhausted);
    EXPECT_THAT(instances.error().hint, HasSubstr("more than max_hourly_cost"));
    for (const std::string& one : asked) EXPECT_THAT(one, HasSubstr("spot")) << one;
    EXPECT_FALSE(asked.empty());
  }
}

TEST_F(Capacity, CheapestTakesEitherMarket) {
  spec_.spot = Spot::Cheapest();
  market = [](const auto&, const auto&, bool spot) { return spot ? 0 : 4; };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  EXPECT_FALSE(instances->front().spot);
}

TEST_F(Capacity, AQuotaIsItsOwnShortageAndNotHammered) {
  spec_.spot = Spot::Always(10, 1s);
  quota = true;
  const Shortage shortage = shortage_of_opening();
  EXPECT_EQ(shortage.kind, ShortageKind::quota);
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(Capacity, AZoneWithoutDisksLeadsToTheNext) {
  spec_.spot = Spot::Never();
  market = [](const auto&, const auto&, bool) { return 4; };
  for (const auto& [status, code] : {std::pair(500, "InsufficientVolumeCapacity"),
                                     std::pair(400, "VolumeTypeNotAvailableInZone")}) {
    const auto others = amazon_.refuse;
    amazon_.refuse = [&](const std::string& action, const Ec2Double::Form& form) {
      const auto refused = others(action, form);
      const bool first = action == "RunInstances" && form.at("NetworkInterface.1.SubnetId") == "s1";
      return first ? std::pair(status, std::string(code)) : refused;
    };
    asked.clear();
    const auto instances = open();
    ASSERT_TRUE(instances) << instances.error().message;
    EXPECT_THAT(asked, ElementsAre("4 eu-west-1/z1", "4 eu-west-1/z2"));
    amazon_.refuse = others;
  }
}

TEST_F(Capacity, WithoutTheRoleForSpotMachinesOthersAreTaken) {
  spot_role = false;
  market = [](const auto&, const auto&, bool) { return 4; };
  for (const Spot& spot : {Spot::IfAvailable(3, 1s), Spot::Cheapest(), Spot::Percent(0)}) {
    spec_.spot = spot;
    asked.clear();
    const auto instances = open();
    ASSERT_TRUE(instances) << instances.error().message;
    EXPECT_FALSE(instances->front().spot);
    EXPECT_THAT(asked, ElementsAre("4 spot eu-west-1/z1", "4 eu-west-1/z1"));
  }
  for (const Spot& spot : {Spot::Always(3, 1s), Spot::Percent(0.5)}) {
    spec_.spot = spot;
    const auto refused = open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::denied);
    EXPECT_THAT(refused.error().message, HasSubstr("ServiceLinkedRoleCreationNotPermitted"));
    EXPECT_THAT(refused.error().hint, HasSubstr("iam:CreateServiceLinkedRole"));
  }
}

// As the double's only one, and dearer ones.
std::string described(const std::vector<std::string>& types) {
  std::string out;
  for (const std::string& type : types) {
    out += "<item><instanceType>" + type +
           "</instanceType><vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo><memoryInfo>"
           "<sizeInMiB>8192</sizeInMiB></memoryInfo><supportedUsageClasses><item>on-demand</item>"
           "<item>spot</item></supportedUsageClasses><currentGeneration>true</currentGeneration>"
           "<processorInfo><supportedArchitectures><item>x86_64</item><item>arm64</item>"
           "</supportedArchitectures></processorInfo></item>";
  }
  return "<instanceTypeSet>" + out + "</instanceTypeSet>";
}
std::string sold_in_z1(const std::vector<std::string>& types) {
  std::string out;
  for (const std::string& type : types) {
    out += "<item><instanceType>" + type + "</instanceType><location>z1</location></item>";
  }
  return "<instanceTypeOfferingSet>" + out + "</instanceTypeOfferingSet>";
}
std::string spot_prices_in_z1(const std::vector<std::string>& types) {
  std::string out;
  for (std::size_t i = 0; i < types.size(); ++i) {
    out += fmt::format(
        "<item><instanceType>{}</instanceType><availabilityZone>z1</availabilityZone>"
        "<spotPrice>0.03{}</spotPrice></item>",
        types[i], i);
  }
  return "<spotPriceHistorySet>" + out + "</spotPriceHistorySet>";
}

TEST_F(Capacity, TypesThatAPolicyForbidsLeadToTheNext) {
  const std::vector<std::string> all = {"m5.large", "m6i.large"};
  amazon_.replies = {{"DescribeInstanceTypes", described(all)},
                     {"DescribeInstanceTypeOfferings", sold_in_z1(all)},
                     {"DescribeSpotPriceHistory", spot_prices_in_z1(all)}};
  spec_.spot = Spot::Always(3, 1s);
  market = [](const auto&, const auto&, bool) { return 4; };
  std::set<std::string> forbidden = {"m5.large"};
  std::vector<std::string> types;
  const auto others = amazon_.refuse;
  amazon_.refuse = [&](const std::string& action, const Ec2Double::Form& form) {
    if (action != "RunInstances") return others(action, form);
    types.push_back(form.at("InstanceType"));
    if (!forbidden.contains(types.back())) return others(action, form);
    return std::pair(403, std::string("UnauthorizedOperation: You are not authorized to perform "
                                      "this operation. User: arn:aws:iam::1:user/me is not "
                                      "authorized to perform: ec2:RunInstances on resource: "
                                      "arn:aws:ec2:eu-west-1:1:instance/* with an explicit deny "
                                      "in a service control policy."));
  };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  EXPECT_EQ(types, all);
  types.clear();
  forbidden.insert("m6i.large");
  const auto none = open();
  ASSERT_FALSE(none);
  EXPECT_EQ(types, all) << "each is asked for once";
  EXPECT_EQ(none.error().kind, ErrorKind::denied);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("m5.large as spot"), HasSubstr("a service control policy")));
  EXPECT_THAT(none.error().hint, HasSubstr("give machine= of such a type"));
  amazon_.refuse = others;
}

TEST_F(Capacity, SeveralSubnetsOfOnesOwnAreSeveralZones) {
  market = [](const auto&, const auto& zone, bool) { return zone == "z2" ? 4 : 0; };
  spec_.provider.settings["subnet_id"] = "s1";
  (void)shortage_of_opening();
  EXPECT_THAT(asked, ElementsAre("4 eu-west-1/z1"));
  asked.clear();
  spec_.provider.settings["subnet_id"] = "s2, s1";
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  EXPECT_THAT(asked, ElementsAre("4 eu-west-1/z1", "4 eu-west-1/z2"));
}

// ---- Regions

TEST_F(Capacity, ARegionWithoutMachinesLeadsToTheNextOneNearFirst) {
  amazon_.regions = {"ap-south-1", "eu-central-1", "eu-west-1", "us-east-1"};
  market = [](const auto& region, const auto&, bool) { return region == "ap-south-1" ? 4 : 0; };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  EXPECT_THAT(asked, ElementsAre("4 eu-west-1/z1", "4 eu-west-1/z2", "4 eu-central-1/z1",
                                 "4 eu-central-1/z2", "4 us-east-1/z1", "4 us-east-1/z2",
                                 "4 ap-south-1/z1"));
  for (const DoubleInstance& one : amazon_.instances) EXPECT_EQ(one.region, "ap-south-1");
}

TEST_F(Capacity, NearRegionsHaveOtherNamesWhereACountryHasOne) {
  amazon_.regions = {"ap-south-1", "eu-north-1", "sa-east-1", "us-east-1", "ca-central-1"};
  fixture_.variables["AWS_REGION"] = "ca-central-1";
  spec_.provider.settings["region"] = "ca-central-1";
  market = [](const auto& region, const auto&, bool) { return region == "sa-east-1" ? 4 : 0; };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  EXPECT_THAT(asked, ElementsAre("4 ca-central-1/z1", "4 ca-central-1/z2", "4 us-east-1/z1",
                                 "4 us-east-1/z2", "4 sa-east-1/z1"));
}

TEST_F(Capacity, ARegionThatCannotStandInIsPassedOver) {
  amazon_.regions = {"eu-central-1", "eu-north-1", "eu-west-1"};
  region_without_image = "eu-central-1";
  market = [](const auto& region, const auto&, bool) { return region == "eu-north-1" ? 4 : 0; };
  const auto instances = open();
  ASSERT_TRUE(instances) << instances.error().message;
  EXPECT_EQ(amazon_.instances.front().region, "eu-north-1");
}

TEST_F(Capacity, NoRegionIsAskedTwice) {
  amazon_.regions = {"eu-west-1", "us-east-1"};
  EXPECT_EQ(shortage_of_opening().region, "eu-west-1");
  EXPECT_THAT(asked,
              ElementsAre("4 eu-west-1/z1", "4 eu-west-1/z2", "4 us-east-1/z1", "4 us-east-1/z2"));
}

TEST_F(Capacity, WhatBelongsToOneRegionKeepsThePoolThere) {
  amazon_.regions = {"eu-west-1", "us-east-1"};
  spec_.provider.settings["ami"] = "ami-1";
  (void)shortage_of_opening();
  EXPECT_THAT(asked, ElementsAre("4 eu-west-1/z1", "4 eu-west-1/z2"));
}

TEST_F(Capacity, ATypeThatNoRegionSellsNamesTheRegions) {
  amazon_.regions = {"eu-west-1", "us-east-1"};
  spec_.machine = "m5.gigantic";
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_THAT(offers.error().message, HasSubstr("m5.gigantic"));
  const auto shortage = shortage_of(offers.error());
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->kind, ShortageKind::region);
  EXPECT_EQ(shortage->instance_type, "m5.gigantic");
  EXPECT_THAT(shortage->regions, ElementsAre("eu-west-1", "us-east-1"));
}

TEST_F(Capacity, ARegionThatDoesNotAnswerIsNotSaidToLackTheType) {
  amazon_.regions = {"eu-central-1", "eu-west-1", "us-east-1"};
  spec_.machine = "m5.gigantic";
  amazon_.refuse = [](const std::string& action, const Ec2Double::Form& form) {
    const bool denied = action == "DescribeInstanceTypes" && form.at("region") == "us-east-1";
    return std::pair(denied ? 403 : 0, std::string("UnauthorizedOperation: not in this region"));
  };
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_THAT(offers.error().hint, HasSubstr("1 of the account's 3 regions could not be asked: EC2 "
                                             "DescribeInstanceTypes in us-east-1"));
  const auto shortage = shortage_of(offers.error());
  ASSERT_TRUE(shortage);
  EXPECT_THAT(shortage->regions, ElementsAre("eu-west-1", "eu-central-1"));
}

// ---- Many machines

TEST_F(Capacity, SixtyFourMachinesTakeTheTimeOfOneAndItsRequests) {
  amazon_.boot = 40s;
  market = [](const auto&, const auto&, bool) { return 10'000; };
  struct Measured {
    double time_s = 0;
    int requests = 0;
  };
  const auto measure = [&](int nodes) {
    forget();
    amazon_.refuse = nullptr;
    spec_.nodes = nodes;
    const auto aws = provider();
    const Time begin = fixture_.now;
    const auto offers = aws->offers(spec_, soon());
    const auto cluster = aws->prepare(spec_, offers->front(), soon());
    EXPECT_TRUE(aws->provision(*cluster, nodes, 0, soon()));
    const Measured measured{seconds(fixture_.now - begin), amazon_.requests};
    EXPECT_TRUE(aws->teardown(*cluster, soon()));
    EXPECT_EQ(amazon_.throttled, 0) << nodes << " machines ask faster than Amazon lets anybody";
    return measured;
  };
  const Measured one = measure(1);
  const Measured many = measure(64);
  EXPECT_GE(one.time_s, 40);
  EXPECT_NEAR(many.time_s, one.time_s, 0.2 * one.time_s);
  EXPECT_EQ(many.requests, one.requests);
  // A page of a listing has 200 machines.
  const Measured pages = measure(1000);
  EXPECT_NEAR(pages.time_s, one.time_s, 0.2 * one.time_s);
  const auto looks = std::ranges::count(amazon_.actions, "DescribeInstances");
  EXPECT_LE(pages.requests, one.requests + looks);
  std::printf("1, 64, 1000 machines: %.0f, %.0f, %.0f s with %d, %d, %d requests\n", one.time_s,
              many.time_s, pages.time_s, one.requests, many.requests, pages.requests);
}

TEST_F(Capacity, TheDoubleRefusesWhoeverAsksTooFast) {
  const auto aws = provider();
  for (int i = 0; i < 60; ++i)
    (void)aws->get_instance({.id = "aws-1", .region = "eu-west-1"}, "i", soon());
  EXPECT_GT(amazon_.throttled, 0);
}

}  // namespace
}  // namespace skyward::provider::aws
