#include "skyward/provider/aws/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider::aws {
namespace {

using namespace std::chrono_literals;

// A session that ends in three minutes, told by a container's service as long as it answers.
class Sessions : public ::testing::Test {
 protected:
  Sessions() {
    fixture_.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1/keys";
    fixture_.http->answer = [this](const io::HttpRequest&) -> Result<io::HttpReply> {
      ++asked_;
      if (!answers_) return fail(ErrorKind::unavailable, "nobody is there");
      return io::HttpReply{.status = 200,
                           .headers = {},
                           .body = R"({"AccessKeyId":"AKIA","SecretAccessKey":"s","Token":"t",)"
                                   R"("Expiration":"2023-11-14T22:16:20Z"})"};
    };
  }

  WorldFixture fixture_;
  Client client_{fixture_.world, Configuration{}, "eu-west-1"};
  bool answers_ = true;
  int asked_ = 0;
};

TEST_F(Sessions, AreUsedToTheirEndWhenTheyCannotBeRenewed) {
  ASSERT_TRUE(client_.credentials(kNever));
  answers_ = false;
  const Time before = fixture_.now;
  const auto still = client_.credentials(kNever);
  ASSERT_TRUE(still) << still.error().message;
  EXPECT_EQ(still->keys.access_key_id, "AKIA");
  EXPECT_LE(fixture_.now - before, 20s) << "it does not take the time of what is asked for";
  const int asked = asked_;
  ASSERT_TRUE(client_.credentials(kNever));
  EXPECT_EQ(asked_, asked) << "nor is each request held up by it";
  fixture_.wall_s += 300;
  EXPECT_FALSE(client_.credentials(kNever)) << "they are over";
}

TEST_F(Sessions, AreRenewedBeforeTheyEnd) {
  ASSERT_TRUE(client_.credentials(kNever));
  answers_ = false;
  ASSERT_TRUE(client_.credentials(kNever));
  answers_ = true;
  const int asked = asked_;
  fixture_.now += 60s;
  ASSERT_TRUE(client_.credentials(kNever));
  EXPECT_GT(asked_, asked);
}

// Some tools put new keys into the file each hour, and no time at which they end.
TEST(KeysInFiles, AreReadAnewWhenTheyAreOver) {
  WorldFixture fixture;
  const auto keys = [](const std::string& id) {
    return "[default]\naws_access_key_id = " + id + "\naws_secret_access_key = s\n";
  };
  fixture.files["/home/.aws/credentials"] = keys("OLD");
  Client client(fixture.world, *load_configuration(fixture.world, ""), "eu-west-1");
  fixture.http->answer = [](const io::HttpRequest& request) -> Result<io::HttpReply> {
    for (const auto& [name, value] : request.headers) {
      if (name == "Authorization" && value.contains("=NEW/")) {
        return io::HttpReply{.status = 200, .headers = {}, .body = "<DescribeVpcsResponse/>"};
      }
    }
    return io::HttpReply{
        .status = 400,
        .headers = {},
        .body = "<R><Errors><Error><Code>ExpiredToken</Code></Error></Errors></R>"};
  };
  ASSERT_FALSE(client.query("ec2", "DescribeVpcs", {}, kNever));
  fixture.files["/home/.aws/credentials"] = keys("NEW");
  EXPECT_TRUE(client.query("ec2", "DescribeVpcs", {}, kNever));
}

TEST(Requests, ToThisComputerPassNoProxyAndTrustWhatTheUserTrusts) {
  WorldFixture fixture;
  fixture.variables["AWS_ACCESS_KEY_ID"] = "AKIA";
  fixture.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  Client client(fixture.world, Configuration{}, "eu-west-1");
  (void)client.query("ec2", "DescribeVpcs", {}, kNever);
  EXPECT_FALSE(fixture.http->requests.back().direct);
  fixture.variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:5000";
  (void)client.query("ec2", "DescribeVpcs", {}, kNever);
  EXPECT_TRUE(fixture.http->requests.back().direct);
  EXPECT_EQ(fixture.http->requests.back().ca_file, "");
  fixture.variables["AWS_CA_BUNDLE"] = "/ca.pem";
  (void)client.query("ec2", "DescribeVpcs", {}, kNever);
  EXPECT_EQ(fixture.http->requests.back().ca_file, "/ca.pem");
}

TEST(Replies, OfOthersAreNotAmazons) {
  WorldFixture fixture;
  fixture.variables["AWS_ACCESS_KEY_ID"] = "AKIA";
  fixture.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  Client client(fixture.world, Configuration{}, "eu-west-1");
  std::string body;
  fixture.http->answer = [&](const io::HttpRequest&) -> Result<io::HttpReply> {
    return io::HttpReply{.status = 200, .headers = {}, .body = body};
  };
  for (const char* other : {"<html><body>Sign in to this network</body></html>", "<R/>",
                            "<DescribeInstancesResponse/>", "<TerminateInstances/>"}) {
    body = other;
    const auto reply = client.query("ec2", "TerminateInstances", {}, kNever);
    ASSERT_FALSE(reply) << other;
    EXPECT_EQ(reply.error().kind(), ErrorKind::unavailable) << other;
    EXPECT_FALSE(is_certain(reply.error())) << other;
  }
  body = "<TerminateInstancesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"/>";
  EXPECT_TRUE(client.query("ec2", "TerminateInstances", {}, kNever));
}

}  // namespace
}  // namespace skyward::provider::aws
