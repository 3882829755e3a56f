#include "skyward/provider/aws/images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/provider/aws/aws_computer_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LoginUser, IsToldByTheNamesOfPublishedImages) {
  for (const auto& [image, user] : std::vector<std::pair<std::string, std::string>>{
           {"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250610", "ubuntu"},
           {"Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20250620", "ubuntu"},
           {"Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.7 (Amazon Linux 2023)", "ec2-user"},
           {"debian-12-amd64-20250530-2128", "admin"},
           {"amzn2-ami-kernel-5.10-hvm-2.0.20250610-x86_64-gp2", "ec2-user"},
           {"al2023-ami-2023.7.20250609.0-kernel-6.1-x86_64", "ec2-user"},
           {"RHEL-9.6.0_HVM_GA-20250423-x86_64-0-Hourly2-GP3", "ec2-user"},
           {"suse-sles-15-sp6-v20250606-hvm-ssd-x86_64", "ec2-user"},
           {"Rocky-9-EC2-Base-9.6-20250531.0.x86_64", ""},
           {"train-env-v3", ""}}) {
    EXPECT_EQ(login_user(image), user) << image;
  }
}

std::string decoded(const std::string& base64_text) {
  io::SpawnOptions options;
  options.command = {"sh", "-c", "printf %s \"$1\" | base64 -d", "sh", base64_text};
  const auto ran = io::run_command(options, 20s);
  return ran ? ran->out : ran.error().message;
}

class PublishedImages : public ::testing::Test, public AwsComputer {};

// "Allowed AMIs" of the account: SSM names an image that DescribeImages leaves out.
TEST_F(PublishedImages, ThatTheAccountMayNotUseAreNotBlamedOnASetting) {
  amazon_.replies["DescribeImages"] = "<imagesSet/>";
  const Error refused = refusal_of_opening();
  EXPECT_EQ(refused.kind, ErrorKind::invalid);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("ami-1"), HasSubstr("eu-west-1")));
  EXPECT_THAT(refused.hint, AllOf(HasSubstr("Allowed AMIs"), HasSubstr("give ami=")));
  spec_.provider.settings["ami"] = "ami-2";
  EXPECT_THAT(refusal_of_opening().hint, HasSubstr("leave ami out"));
}

class OwnImages : public ::testing::Test, public AwsComputer {};

TEST_F(OwnImages, OfWhichNobodyKnowsTheUserGetOne) {
  struct Case {
    const char* name;
    const char* username;
    const char* user;
    bool is_new;
  };
  for (const Case& one :
       {Case{"train-env-v3", "", "skyward", true}, Case{"my-ubuntu-env", "", "ubuntu", false},
        Case{"train-env-v3", "rocky", "rocky", false}}) {
    SCOPED_TRACE(fmt::format("{} {}", one.name, one.username));
    forget();
    spec_.provider.settings["ami"] = "ami-1";
    spec_.provider.settings["username"] = one.username;
    amazon_.replies["DescribeImages"] = fmt::format(
        "<imagesSet><item><imageId>ami-1</imageId><name>{}</name></item></imagesSet>", one.name);
    std::string data;
    amazon_.refuse = [&](const std::string& action, const Ec2Double::Form& form) {
      if (action == "RunInstances") data = decoded(form.at("UserData"));
      return std::pair(0, std::string());
    };
    const auto [aws, life] = opened();
    EXPECT_TRUE(data.starts_with("#cloud-config")) << data.substr(0, 100);
    EXPECT_EQ(data.contains("\"name\": \"skyward\""), one.is_new);
    const Instance& machine = life.instances.front();
    const Connection way = aws->connection(life.cluster, machine);
    EXPECT_THAT(fmt::format("{}", fmt::join(way.command, " ")),
                HasSubstr(fmt::format("-l {} ", one.user)));
    const Error refused = aws->explain(
        machine, {ErrorKind::lost, "x@203.0.113.9: Permission denied (publickey).\r\n", ""});
    EXPECT_EQ(refused.kind, ErrorKind::denied);
    EXPECT_THAT(refused.message,
                AllOf(HasSubstr(fmt::format("refuses the login as {}", one.user)),
                      HasSubstr("ami-1"), HasSubstr(one.name), HasSubstr("(publickey).)")));
    EXPECT_THAT(refused.hint, HasSubstr("username="));
    EXPECT_TRUE(aws->teardown(life.cluster, soon()));
  }
}

}  // namespace
}  // namespace skyward::provider::aws
