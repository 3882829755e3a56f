#include "skyward/provider/aws/ec2_api.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "skyward/provider/aws/api_model_fixture.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Answers each action with the replies written for it, in their order; the last one stays.
class Ec2 : public ::testing::Test {
 protected:
  Ec2() {
    fixture_.variables["AWS_ACCESS_KEY_ID"] = "AKIA";
    fixture_.variables["AWS_SECRET_ACCESS_KEY"] = "secret";
    fixture_.http->answer = [this](const io::HttpRequest& request) -> Result<io::HttpReply> {
      const std::string action = action_of(request);
      auto& replies = replies_[action];
      if (replies.empty()) {
        return io::HttpReply{.status = 200, .headers = {}, .body = "<" + action + "Response/>"};
      }
      const io::HttpReply reply = replies.front();
      if (replies.size() > 1) replies.erase(replies.begin());
      return reply;
    };
  }

  static std::string header_of(const io::HttpRequest& request, std::string_view name) {
    for (const auto& [key, value] : request.headers) {
      if (key == name) return value;
    }
    return {};
  }
  static std::string action_of(const io::HttpRequest& request) {
    const std::string target = header_of(request, "X-Amz-Target");
    if (!target.empty()) return target.substr(target.find('.') + 1);
    return request.body.substr(7, request.body.find('&') - 7);
  }
  // "<R>" stands for the root that a reply to the action has.
  void reply(const std::string& action, int status, std::string body,
             io::HttpHeaders headers = {}) {
    if (body.starts_with("<R>")) {
      body = fmt::format("<{0}Response>{1}</{0}Response>", action,
                         std::string_view(body).substr(3, body.size() - 7));
    }
    replies_[action].push_back(
        {.status = status, .headers = std::move(headers), .body = std::move(body)});
  }
  const io::HttpRequest& last() const { return fixture_.http->requests.back(); }

  WorldFixture fixture_;
  std::map<std::string, std::vector<io::HttpReply>> replies_;
  Client client_{fixture_.world, Configuration{}, "eu-west-1"};
  Ec2Api api_{client_};
};

LaunchRequest launch() {
  return {.client_token = "skyward-1",
          .count = 3,
          .type = "p4d.24xlarge",
          .image = "ami-0123456789abcdef0",
          .subnet = "subnet-1",
          .security_group = "sg-1",
          .user_data = "#!/bin/sh\nshutdown -h +10\n",
          .instance_profile_arn = "arn:aws:iam::1:instance-profile/p",
          .root_device = "/dev/sda1",
          .root_gb = 100,
          .data_disks = {{"/dev/sdb", 500}, {"/dev/sdc", 0}},
          .spot = true,
          .max_spot_price = 1.5,
          .tags = {{"skyward:pool", "aws-1"}, {"Name", "skyward & co"}}};
}

// Other types refuse the parameter.
TEST_F(Ec2, BurstableMachinesCostTheirPriceAndNoMore) {
  for (const auto& [type, standard] : std::vector<std::pair<std::string, bool>>{
           {"t3.large", true}, {"t4g.micro", true}, {"trn1.2xlarge", false}, {"m5.large", false}}) {
    LaunchRequest request = launch();
    request.type = type;
    (void)api_.run_instances(request, kNever);
    EXPECT_EQ(
        fixture_.http->requests.back().body.contains("CreditSpecification.CpuCredits=standard"),
        standard)
        << type;
  }
}

TEST_F(Ec2, EveryRequestIsWhatAmazonsModelSays) {
  if (published_data().empty()) GTEST_SKIP() << "Amazon's service models are not on this machine";
  std::map<std::string, ApiModel> models;
  models.emplace("ec2", ApiModel("ec2/2016-11-15"));
  models.emplace("sts", ApiModel("sts/2011-06-15"));
  models.emplace("ssm", ApiModel("ssm/2014-11-06"));
  models.emplace("pricing", ApiModel("pricing/2017-10-15"));
  reply("GetParameter", 200, R"({"Parameter":{"Value":"ami-1"}})");
  reply("GetProducts", 200, R"({"PriceList":[]})");

  const Tags tags = {{"skyward:managed", "true"}};
  const std::vector<Filter> filters = {{"tag:skyward:pool", {"a", "b"}}, {"vpc-id", {"vpc-1"}}};
  (void)api_.describe_instance_types(kNever);
  (void)api_.describe_type_zones({"p4d.24xlarge", "p5.48xlarge"}, kNever);
  (void)api_.describe_spot_prices({"p4d.24xlarge"}, kNever);
  (void)api_.describe_regions(kNever);
  (void)api_.describe_image("ami-1", kNever);
  (void)api_.default_vpc(kNever);
  (void)api_.describe_subnets(filters, kNever);
  (void)api_.describe_security_groups(filters, kNever);
  (void)api_.create_security_group("skyward-1", "vpc-1", "what for", tags, kNever);
  (void)api_.admit("sg-1", "203.0.113.5/32", 22, kNever);
  (void)api_.admit("sg-1", "2001:db8::5/128", 22, kNever);
  (void)api_.admit_group("sg-1", kNever);
  (void)api_.delete_security_group("sg-1", kNever);
  (void)api_.run_instances(launch(), kNever);
  (void)api_.describe_instances(filters, kNever);
  (void)api_.terminate_instances({"i-1", "i-2"}, kNever);
  (void)api_.describe_volumes(filters, kNever);
  (void)api_.delete_volume("vol-1", kNever);
  (void)api_.dry_run("TerminateInstances", {{"InstanceId.1", "i-1"}}, kNever);
  (void)api_.get_parameter("/a/b", kNever);
  (void)api_.price_page(PriceFamily::virtual_machine, "", kNever);
  (void)api_.price_page(PriceFamily::bare_metal, "next", kNever);
  (void)api_.caller(kNever);
  EXPECT_EQ(fixture_.http->requests.size(), 23U);

  for (const io::HttpRequest& request : fixture_.http->requests) {
    SCOPED_TRACE(request.url + " " + request.body);
    const std::size_t begin = request.url.find("://") + 3;
    std::string service = request.url.substr(begin, request.url.find('.') - begin);
    if (service == "api") service = "pricing";
    ApiModel& model = models.at(service);
    EXPECT_THAT(service == "ssm" || service == "pricing"
                    ? model.judge_json(action_of(request), request.body)
                    : model.judge_form(request.body),
                IsEmpty());
    EXPECT_THAT(header_of(request, "Authorization"), HasSubstr("/" + service + "/aws4_request"));
  }
}

TEST(ApiModels, RefuseWhatIsWrong) {
  if (published_data().empty()) GTEST_SKIP() << "Amazon's service models are not on this machine";
  ApiModel ec2("ec2/2016-11-15");
  const std::string start = "Action=TerminateInstances&Version=2016-11-15";
  EXPECT_THAT(ec2.judge_form(start + "&InstanceId.1=i-1"), IsEmpty());
  for (const char* rest : {"", "&InstanceId.2=i-1", "&InstanceIds.1=i-1", "&InstanceId=i-1",
                           "&InstanceId.1=i-1&DryRun=yes", "&InstanceId.1=i-1&More=1"}) {
    EXPECT_THAT(ec2.judge_form(start + rest), Not(IsEmpty())) << rest;
  }
  EXPECT_THAT(ec2.judge_form("Action=Nothing&Version=2016-11-15"), Not(IsEmpty()));
}

TEST_F(Ec2, AListIsReadToItsLastPage) {
  reply("DescribeSpotPriceHistory", 200,
        "<R><spotPriceHistorySet><item><instanceType>a</instanceType><availabilityZone>z1"
        "</availabilityZone><spotPrice>0.250000</spotPrice><timestamp>2023-11-14T22:00:20.000Z"
        "</timestamp></item></spotPriceHistorySet>"
        "<nextToken>more=</nextToken></R>");
  reply("DescribeSpotPriceHistory", 200,
        "<R><spotPriceHistorySet><item><instanceType>b</instanceType><availabilityZone>z2"
        "</availabilityZone><spotPrice>1.5</spotPrice></item></spotPriceHistorySet>"
        "<nextToken></nextToken></R>");
  const auto prices = api_.describe_spot_prices({"a", "b"}, kNever);
  ASSERT_TRUE(prices);
  ASSERT_EQ(prices->size(), 2U);
  EXPECT_EQ(prices->at(0).dollars, 0.25);
  EXPECT_EQ(prices->at(0).since_s, 1'700'000'000 - 780);
  EXPECT_EQ(prices->at(1).zone, "z2");
  EXPECT_EQ(prices->at(1).since_s, std::nullopt);
  EXPECT_THAT(last().body, HasSubstr("&NextToken=more%3D"));
  EXPECT_THAT(last().body, HasSubstr("StartTime=2023-11-14T22%3A13%3A20Z"));
}

TEST_F(Ec2, AnAnswerThatIsLateIsAskedForAgain) {
  int tries = 0;
  int late = 2;
  fixture_.http->answer = [&](const io::HttpRequest&) -> Result<io::HttpReply> {
    fixture_.now += std::chrono::seconds(30);
    if (++tries <= late) return fail(ErrorKind::timeout, "no answer in time");
    return io::HttpReply{.status = 200, .headers = {}, .body = "<DescribeRegionsResponse/>"};
  };
  EXPECT_TRUE(api_.describe_regions(fixture_.now + std::chrono::seconds(300)));
  EXPECT_EQ(tries, 3);
  late = 100;
  tries = 0;
  const auto never = api_.describe_regions(fixture_.now + std::chrono::seconds(300));
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().kind(), ErrorKind::timeout);
  EXPECT_EQ(tries, 3);
}

// Images with data disks often say that these outlive their machines.
TEST_F(Ec2, EveryVolumeOfAnImageGoesWithItsMachine) {
  reply("DescribeImages", 200,
        "<R><imagesSet><item><imageId>ami-1</imageId><rootDeviceName>/dev/sda1</rootDeviceName>"
        "<blockDeviceMapping>"
        "<item><deviceName>/dev/sda1</deviceName><ebs><volumeSize>8</volumeSize></ebs></item>"
        "<item><deviceName>/dev/sdb</deviceName><ebs><snapshotId>snap-1</snapshotId><volumeSize>500"
        "</volumeSize><deleteOnTermination>false</deleteOnTermination></ebs></item>"
        "<item><deviceName>/dev/sdc</deviceName><virtualName>ephemeral0</virtualName></item>"
        "</blockDeviceMapping></item></imagesSet></R>");
  const auto image = api_.describe_image("ami-1", kNever);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->size_gb, 8);
  ASSERT_EQ(image->data_disks.size(), 1U) << "disks of the host itself are not for sale apart";
  LaunchRequest request = launch();
  request.data_disks = image->data_disks;
  (void)api_.run_instances(request, kNever);
  EXPECT_THAT(last().body, HasSubstr("BlockDeviceMapping.1.DeviceName=%2Fdev%2Fsda1&"));
  EXPECT_THAT(last().body, HasSubstr("BlockDeviceMapping.1.Ebs.DeleteOnTermination=true&"));
  EXPECT_THAT(last().body, HasSubstr("BlockDeviceMapping.2.DeviceName=%2Fdev%2Fsdb&"
                                     "BlockDeviceMapping.2.Ebs.VolumeSize=500&"
                                     "BlockDeviceMapping.2.Ebs.DeleteOnTermination=true&"));
  EXPECT_THAT(last().body, Not(HasSubstr("BlockDeviceMapping.3")));
}

TEST_F(Ec2, NoRequestTerminatesMoreMachinesThanAmazonTakes) {
  constexpr int kMost = 1000;
  std::vector<std::string> ids;
  for (int i = 0; i <= kMost; ++i) ids.push_back(fmt::format("i-{}", i));
  EXPECT_TRUE(api_.terminate_instances(ids, kNever));
  std::string bodies;
  for (const io::HttpRequest& request : fixture_.http->requests) {
    EXPECT_FALSE(request.body.contains(fmt::format("&InstanceId.{}=", kMost + 1)));
    bodies += request.body + "&";
  }
  for (const std::string& id : ids) EXPECT_TRUE(bodies.contains("=" + id + "&")) << id;
}

TEST_F(Ec2, RegionsOfOtherPartitionsAreNobodysHere) {
  reply("DescribeRegions", 200,
        "<R><regionInfo><item><regionName>us-east-1</regionName></item><item><regionName>cn-north-1"
        "</regionName></item><item><regionName>us-gov-west-1</regionName></item></regionInfo></R>");
  EXPECT_THAT(api_.describe_regions(kNever).value(), ElementsAre("us-east-1"));
}

TEST_F(Ec2, DevicesOfTypes) {
  reply("DescribeInstanceTypes", 200, R"(<R><instanceTypeSet>
<item><instanceType>p4d.24xlarge</instanceType><vCpuInfo><defaultVCpus>96</defaultVCpus></vCpuInfo>
<memoryInfo><sizeInMiB>1179648</sizeInMiB></memoryInfo>
<supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>
<processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>
<gpuInfo><gpus><item><name>A100</name><manufacturer>NVIDIA</manufacturer><count>8</count>
<memoryInfo><sizeInMiB>40960</sizeInMiB></memoryInfo></item></gpus></gpuInfo></item>
<item><instanceType>g6f.large</instanceType><gpuInfo><gpus><item><name>L4</name><count>0</count>
<gpuPartitionSize>0.125</gpuPartitionSize></item></gpus></gpuInfo></item>
<item><instanceType>inf2.xlarge</instanceType>
<neuronInfo><neuronDevices>
<item><name>Inferentia2</name><count>1</count></item></neuronDevices></neuronInfo>
<inferenceAcceleratorInfo><accelerators><item><name>Inferentia2</name><count>1</count></item>
</accelerators></inferenceAcceleratorInfo></item>
<item><instanceType>t4g.nano</instanceType></item></instanceTypeSet></R>)");
  const auto types = api_.describe_instance_types(kNever);
  ASSERT_TRUE(types);
  ASSERT_EQ(types->size(), 4U);
  const InstanceType& first = types->front();
  EXPECT_EQ(first.cpus, 96);
  EXPECT_EQ(first.memory_mib, 1179648);
  EXPECT_TRUE(first.spot && first.on_demand);
  EXPECT_THAT(first.architectures, ElementsAre("x86_64"));
  ASSERT_EQ(first.devices.size(), 1U);
  EXPECT_EQ(first.devices[0].name, "A100");
  EXPECT_EQ(first.devices[0].count, 8);
  EXPECT_EQ(first.devices[0].memory_mib, 40960);
  EXPECT_EQ(types->at(1).devices.at(0).count, 0.125);
  EXPECT_EQ(types->at(2).devices.size(), 1U) << "told twice, counted once";
  EXPECT_TRUE(types->at(3).devices.empty());
}

TEST_F(Ec2, PricesAreReadFromTextInTheText) {
  const nlohmann::json product = {
      {"product", {{"attributes", {{"instanceType", "m5.large"}}}}},
      {"terms",
       {{"OnDemand",
         {{"X", {{"priceDimensions", {{"Y", {{"pricePerUnit", {{"USD", "0.0960000000"}}}}}}}}}}}}}};
  reply("GetProducts", 200,
        nlohmann::json{{"PriceList", {product.dump(), "broken", "{}"}}, {"NextToken", "n"}}.dump());
  const auto page = api_.price_page(PriceFamily::virtual_machine, "", kNever);
  ASSERT_TRUE(page);
  EXPECT_THAT(page->prices, ElementsAre(std::pair<std::string, double>("m5.large", 0.096)));
  EXPECT_EQ(page->next, "n");
  (void)api_.price_page(PriceFamily::bare_metal, page->next, kNever);
  EXPECT_THAT(last().body, HasSubstr(R"("NextToken":"n")"));
  EXPECT_THAT(last().body, HasSubstr("Compute Instance (bare metal)"));
  EXPECT_THAT(last().body, Not(HasSubstr("tenancy")));
}

TEST_F(Ec2, RefusalsKeepAmazonsWords) {
  reply(
      "RunInstances", 400,
      "<Response><Errors><Error><Code>InsufficientInstanceCapacity</Code><Message>We currently do "
      "not have sufficient capacity.</Message></Error></Errors><RequestID>r-1</RequestID>"
      "</Response>");
  const auto refused = api_.run_instances(launch(), kNever);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "InsufficientInstanceCapacity");
  EXPECT_EQ(refused.error().kind(), ErrorKind::exhausted);
  EXPECT_EQ(refused.error().refusal, Refusal::capacity);
  EXPECT_EQ(meaning_of("VcpuLimitExceeded", 400).refusal, Refusal::quota);
  EXPECT_EQ(fixture_.http->requests.size(), 1U) << "asking the same place again is no use";
  const Error error = to_error(refused.error(), "EC2 RunInstances in eu-west-1");
  EXPECT_EQ(error.message,
            "EC2 RunInstances in eu-west-1: We currently do not have sufficient capacity. "
            "(InsufficientInstanceCapacity), request r-1");

  reply("GetParameter", 400,
        R"({"__type":"com.amazonaws.ssm#ParameterNotFound","message":"no such thing"})");
  const auto none = api_.get_parameter("/x", kNever);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, "ParameterNotFound");
  EXPECT_EQ(none.error().kind(), ErrorKind::invalid);
}

TEST_F(Ec2, ThrottlingAndFaultsAreTriedAgainWithTheSameToken) {
  reply("RunInstances", 503,
        "<R><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></R>",
        {{"Retry-After", "3"}});
  reply("RunInstances", 500, "<html>broken</html>");
  reply("RunInstances", 200,
        "<R><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></R>");
  const auto made = api_.run_instances(launch(), kNever);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(fixture_.http->requests.size(), 3U);
  for (const io::HttpRequest& request : fixture_.http->requests) {
    EXPECT_THAT(request.body, HasSubstr("ClientToken=skyward-1&"));
  }
  EXPECT_GE(fixture_.pauses.at(0), std::chrono::seconds(3)) << "as long as it was asked to";
}

TEST_F(Ec2, ThrottlingPasses) {
  for (int i = 0; i < 20; ++i) {
    reply("RunInstances", 503,
          "<R><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></R>");
  }
  reply("RunInstances", 200,
        "<R><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></R>");
  EXPECT_TRUE(api_.run_instances(launch(), kNever));
  EXPECT_EQ(fixture_.http->requests.size(), 21U);
}

// The last answer is about the last try alone.
TEST_F(Ec2, ARefusalAfterATryThatMayHaveBeenHeardIsNoProof) {
  const auto refused = [](const char* code) {
    return fmt::format("<R><Errors><Error><Code>{}</Code></Error></Errors></R>", code);
  };
  const auto certain = [&] {
    const auto made = api_.run_instances(launch(), kNever);
    EXPECT_FALSE(made);
    replies_.clear();
    return is_certain(made.error());
  };
  reply("RunInstances", 503, refused("RequestLimitExceeded"));
  reply("RunInstances", 400, refused("VcpuLimitExceeded"));
  EXPECT_TRUE(certain()) << "a request that came too fast was not obeyed";
  reply("RunInstances", 500, refused("InternalError"));
  reply("RunInstances", 400, refused("VcpuLimitExceeded"));
  EXPECT_FALSE(certain());
  reply("RunInstances", 500, refused("InternalError"));
  reply("RunInstances", 400, refused("ExpiredToken"));
  reply("RunInstances", 400, refused("UnauthorizedOperation"));
  EXPECT_FALSE(certain()) << "with other credentials, too";
}

TEST_F(Ec2, AWrongClockIsCorrectedOnce) {
  reply("DescribeRegions", 403,
        "<R><Errors><Error><Code>SignatureDoesNotMatch</Code></Error></Errors></R>",
        {{"Date", "Tue, 14 Nov 2023 23:13:20 GMT"}});
  reply("DescribeRegions", 200,
        "<R><regionInfo><item><regionName>eu-west-1</regionName></item></regionInfo></R>");
  const auto regions = api_.describe_regions(kNever);
  ASSERT_TRUE(regions) << regions.error().message;
  EXPECT_THAT(*regions, ElementsAre("eu-west-1"));
  EXPECT_EQ(header_of(last(), "X-Amz-Date"), "20231114T231320Z");

  replies_.clear();
  reply("DescribeVpcs", 403,
        "<R><Errors><Error><Code>SignatureDoesNotMatch</Code></Error></Errors></R>",
        {{"Date", "Tue, 14 Nov 2023 23:13:20 GMT"}});
  EXPECT_EQ(api_.default_vpc(kNever).error().kind(), ErrorKind::denied)
      << "the clock is right by now";
}

TEST_F(Ec2, CredentialsThatAreOverAreFoundAgainOnce) {
  reply("DescribeVpcs", 400, "<R><Errors><Error><Code>ExpiredToken</Code></Error></Errors></R>");
  reply("DescribeVpcs", 200, "<R><vpcSet><item><vpcId>vpc-7</vpcId></item></vpcSet></R>");
  EXPECT_EQ(api_.default_vpc(kNever).value_or("failed"), "vpc-7");
  replies_.clear();
  reply("DescribeVpcs", 400, "<R><Errors><Error><Code>ExpiredToken</Code></Error></Errors></R>");
  const auto over = api_.default_vpc(kNever);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind(), ErrorKind::denied);
  EXPECT_THAT(over.error().hint, HasSubstr("aws sso login"));
}

TEST_F(Ec2, TheDeadlineEndsTheTries) {
  reply("DescribeVpcs", 500, "");
  const auto failed = api_.default_vpc(fixture_.now + std::chrono::seconds(2));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind(), ErrorKind::unavailable);
  Duration waited{};
  for (const Duration pause : fixture_.pauses) waited += pause;
  EXPECT_LE(waited, std::chrono::seconds(2));
}

}  // namespace
}  // namespace skyward::provider::aws
