#include "skyward/provider/aws/login.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "skyward/io/machine.h"
#include "skyward/provider/aws/aws_computer_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const Instance kMachine{.id = "i-0ab", .private_ip = "10.0.0.7", .public_ip = "203.0.113.9"};
constexpr const char* kProfile = "arn:aws:iam::1:instance-profile/p";

Login login(const std::string& session_region) {
  return {.user = "ubuntu", .session_region = session_region};
}

std::vector<std::string> login_command(const Login& login, const Instance& instance) {
  const SshRoute route = route_by(login, instance);
  return ssh_command(route.target, {.identity_file = "/k/login",
                                    .proxy_command = route.proxy_command,
                                    .known_hosts_file = "/k/host-1.known",
                                    .pinned = true});
}

TEST(Login, IsStraightToTheMachine) {
  const auto words = login_command(login(""), kMachine);
  EXPECT_EQ(words.back(), "203.0.113.9");
  EXPECT_THAT(words, Not(Contains(HasSubstr("ProxyCommand"))));
  const Instance inside{.id = "i-0ab", .private_ip = "10.0.0.7"};
  EXPECT_EQ(login_command(login(""), inside).back(), "10.0.0.7");
}

TEST(Login, BySessionManagerIsTheSameWithAnotherCarrier) {
  auto words = login_command(login("eu-west-1"), kMachine);
  EXPECT_EQ(words.back(), "i-0ab");
  const std::string carrier =
      "ProxyCommand=aws ssm start-session --target %h --document-name AWS-StartSSHSession "
      "--parameters portNumber=%p --region eu-west-1";
  EXPECT_THAT(words, Contains(carrier));
  EXPECT_THAT(words, Contains("HostKeyAlias=i-0ab"));
  // Apart from that, not a word is different: the host key is checked as ever.
  auto straight = login_command(login(""), kMachine);
  std::ranges::replace(straight, "203.0.113.9", "i-0ab");
  std::ranges::replace(straight, "HostKeyAlias=203.0.113.9", "HostKeyAlias=i-0ab");
  const auto at = std::ranges::find(words, carrier);
  words.erase(at - 1, at + 1);
  EXPECT_EQ(words, straight);
}

TEST(Login, SshUnderstandsTheCarrier) {
  auto words = login_command(login("eu-west-1"), kMachine);
  words.insert(words.begin() + 1, {"-G", "-F", "/dev/null"});
  io::SpawnOptions options;
  options.command = words;
  const auto told = io::run_command(options, 20s);
  ASSERT_TRUE(told && told->status.code == 0) << (told ? told->err : told.error().message);
  EXPECT_THAT(told->out, HasSubstr("\nhostname i-0ab\n"));
  EXPECT_THAT(told->out, HasSubstr("\nport 22\n"));
  EXPECT_THAT(told->out, HasSubstr("\nproxycommand aws ssm start-session --target %h "));
  EXPECT_THAT(told->out, HasSubstr("\nstricthostkeychecking true\n"));
}

TEST(Login, SessionErrorsSayWhatToDo) {
  struct Case {
    const char* words;
    ErrorKind kind;
    const char* meaning;
    const char* hint;
    bool permanent;
  };
  for (const Case& one : {
           Case{"TargetNotConnected", ErrorKind::unreachable, "it has not reported",
                "AmazonSSMManagedInstanceCore", false},
           Case{"AccessDeniedException", ErrorKind::denied, "may not open a session",
                "ssm:StartSession", true},
           Case{"ExpiredTokenException", ErrorKind::denied, "no longer valid", "renew", true},
       }) {
    const auto explained = explain_session_error(
        login("eu-west-1"), kMachine,
        {ErrorKind::lost,
         fmt::format("its agent ended (exit code 255); it wrote: \nAn error occurred ({}) when "
                     "calling the StartSession operation: User is not …\r\n",
                     one.words),
         ""});
    ASSERT_TRUE(explained);
    const Error& told = *explained;
    EXPECT_EQ(told.kind, one.kind);
    EXPECT_THAT(told.message, HasSubstr("i-0ab in eu-west-1 cannot be reached: "));
    EXPECT_THAT(told.message, HasSubstr(one.meaning));
    EXPECT_THAT(told.message, HasSubstr(one.words));
    EXPECT_THAT(told.hint, HasSubstr(one.hint));
    const auto permanent = route_by(login("eu-west-1"), kMachine).permanent_errors;
    EXPECT_EQ(std::ranges::any_of(permanent,
                                  [&](const std::string& words) {
                                    return std::string_view(one.words).contains(words);
                                  }),
              one.permanent)
        << one.words;
  }
  // Without Session Manager these words are nobody's.
  EXPECT_FALSE(explain_session_error(login(""), kMachine, {ErrorKind::lost, "AccessDenied", ""}));
  EXPECT_THAT(route_by(login(""), kMachine).permanent_errors, IsEmpty());
}

class SessionsTest : public ::testing::Test, public AwsComputer {
 protected:
  SessionsTest() {
    std::filesystem::create_directories(programs_);
    fixture_.variables["PATH"] = programs_;
    spec_.provider.settings["use_ssm"] = "true";
    spec_.provider.settings["instance_profile_arn"] = kProfile;
  }
  void install(const char* program) {
    std::ofstream(programs_ + "/" + program) << "#!/bin/sh\n";
    std::filesystem::permissions(programs_ + "/" + program, std::filesystem::perms::owner_all);
  }
  const std::string programs_ = home_ + "/programs";
};

TEST_F(SessionsTest, WhatIsMissingIsToldBeforeAnythingIsLaunched) {
  const auto refusal = [&] {
    const Status status = provider()->check(spec_);
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  };
  EXPECT_EQ(refusal().message,
            "use_ssm=True needs the programs aws and session-manager-plugin on this computer, not "
            "found on PATH");
  EXPECT_EQ(refusal().kind, ErrorKind::unsupported);
  EXPECT_THAT(refusal().hint, HasSubstr("install the AWS CLI and its Session Manager plugin"));
  install("aws");
  EXPECT_THAT(refusal().message, HasSubstr("the program session-manager-plugin on"));
  install("session-manager-plugin");
  EXPECT_TRUE(provider()->check(spec_));
  spec_.provider.settings.erase("instance_profile_arn");
  EXPECT_EQ(refusal().kind, ErrorKind::invalid);
  EXPECT_THAT(refusal().message, HasSubstr("only machines with a role"));
  EXPECT_THAT(refusal().hint, HasSubstr("AmazonSSMManagedInstanceCore"));
  EXPECT_EQ(amazon_.requests, 0);
}

TEST_F(SessionsTest, NobodyIsLetInFromOutside) {
  install("aws");
  install("session-manager-plugin");
  for (const bool session : {true, false}) {
    forget();
    fixture_.http->requests.clear();
    spec_.provider.settings["use_ssm"] = session ? "true" : "false";
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    ASSERT_TRUE(offers) << offers.error().message;
    const auto cluster = aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(cluster) << cluster.error().message;
    ASSERT_THAT(amazon_.groups, SizeIs(1));
    // The group's own members; and without Session Manager this computer.
    EXPECT_THAT(amazon_.groups.front().rules, SizeIs(session ? 1 : 2));
    EXPECT_EQ(
        std::ranges::any_of(fixture_.http->requests,
                            [](const io::HttpRequest& one) { return one.url.contains("checkip"); }),
        !session);
    const auto machines = aws->provision(*cluster, 1, 0, soon());
    ASSERT_TRUE(machines) << machines.error().message;
    EXPECT_THAT(fixture_.http->requests,
                Contains(Field(&io::HttpRequest::body, HasSubstr("AssociatePublicIpAddress=true"))))
        << "the default subnets lead nowhere without one";
    const Connection way = aws->connection(*cluster, machines->front());
    EXPECT_EQ(way.command.back(), session ? machines->front().id : "203.0.113.9");
    EXPECT_TRUE(aws->teardown(*cluster, soon()));
  }
}

class PrivateAddresses : public ::testing::Test, public AwsComputer {};

TEST_F(PrivateAddresses, AreTheOnlyOnesAndTheWayToTheMachines) {
  spec_.provider.settings.insert({{"private_addresses", "true"}, {"subnet_id", "s1"}});
  const auto [aws, life] = opened();
  for (const DoubleInstance& one : amazon_.instances) EXPECT_FALSE(one.addressed);
  EXPECT_THAT(amazon_.groups.front().rules, Contains(HasSubstr("10.0.0.0/8")));
  EXPECT_THAT(amazon_.groups.front().rules, SizeIs(5)) << "four networks, and the group itself";
  for (const io::HttpRequest& request : fixture_.http->requests) {
    EXPECT_FALSE(request.url.contains("checkip")) << "the address of a public way";
  }
  const Instance& machine = life.instances.front();
  EXPECT_EQ(aws->connection(life.cluster, machine).command.back(), "10.0.0.1");
  const Error silent = aws->explain(
      machine,
      {ErrorKind::lost, "ssh: connect to host 10.0.0.1 port 22: Connection timed out", ""});
  EXPECT_THAT(silent.hint, HasSubstr("this computer must have a route to the subnet"));
  ASSERT_TRUE(aws->provision(life.cluster, 1, 0, soon())) << "whole networks are admitted";
  EXPECT_TRUE(aws->teardown(life.cluster, soon()));
}

TEST_F(PrivateAddresses, NeedASubnetOfTheUsers) {
  spec_.provider.settings["private_addresses"] = "true";
  const Status refused = provider()->check(spec_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("private_addresses=True needs subnet_id="));
  spec_.provider.settings["subnet_id"] = "s1";
  EXPECT_TRUE(provider()->check(spec_));
}

TEST_F(PrivateAddresses, AreRecommendedWhereAMachineInASubnetIsSilent) {
  const auto hint = [](std::map<std::string, std::string> settings) {
    return silent_hint({.name = "aws", .settings = std::move(settings)});
  };
  EXPECT_THAT(hint({}), Not(HasSubstr("private_addresses")));
  EXPECT_THAT(hint({{"subnet_id", "s1"}}), HasSubstr("set private_addresses=True"));
  EXPECT_THAT(hint({{"security_group_id", "sg-1"}}), HasSubstr("must admit SSH"));
}

TEST_F(SessionsTest, InASubnetOfTheUsersAMachineHasNoPublicAddress) {
  install("aws");
  install("session-manager-plugin");
  spec_.provider.settings["subnet_id"] = "s1";
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  ASSERT_TRUE(aws->provision(*cluster, 1, 0, soon()));
  EXPECT_THAT(fixture_.http->requests,
              Contains(Field(&io::HttpRequest::body, HasSubstr("AssociatePublicIpAddress=false"))));
  EXPECT_TRUE(aws->teardown(*cluster, soon()));
}

}  // namespace
}  // namespace skyward::provider::aws
