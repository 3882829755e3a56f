#include "skyward/provider/aws/aws.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <ranges>

#include "skyward/io/file.h"
#include "skyward/provider/aws/api_model_fixture.h"
#include "skyward/provider/aws/aws_computer_fixture.h"
#include "skyward/provider/marks.h"

namespace skyward::provider::aws {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class AwsTest : public ::testing::Test, public AwsComputer {
 protected:
  // As 'aws sso login' did.
  void sign_on(const std::string& until = "2099-01-01T00:00:00Z") {
    fixture_.variables.erase("AWS_ACCESS_KEY_ID");
    fixture_.variables.erase("AWS_SECRET_ACCESS_KEY");
    const std::string cache = home_ + "/.aws/sso/cache";
    std::filesystem::create_directories(cache);
    std::ofstream(home_ + "/.aws/config")
        << "[default]\nsso_session = dev\nsso_account_id = 1\nsso_role_name = R\n"
        << "[sso-session dev]\nsso_region = eu-west-1\nsso_start_url = https://x\n";
    // printf dev | sha1sum
    std::ofstream(cache + "/34c6fceca75e456f25e7e99531e2425c6c1de443.json")
        << fmt::format(R"({{"accessToken":"t","expiresAt":"{}"}})", until);
  }
  // The keys of a role, which expire in 20 s.
  io::HttpReply short_keys() const {
    return {.status = 200,
            .headers = {},
            .body = fmt::format(R"({{"roleCredentials":{{"accessKeyId":"AKIA",)"
                                R"("secretAccessKey":"s","sessionToken":"t","expiration":{}}}}})",
                                (fixture_.world.wall_s() + 20) * 1000)};
  }
};

TEST_F(AwsTest, APoolLivesAndLeavesNothing) {
  const auto [aws, life] = lived();
  EXPECT_EQ(amazon_.instances.size(), 3U);
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(home_ + "/state/skyward/clouds/" + life.cluster.id));
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_EQ(life.instances.front().public_ip, "203.0.113.9");
  for (const DoubleInstance& one : amazon_.instances) {
    EXPECT_EQ(one.zone, amazon_.instances.front().zone) << "a pool stands in one zone";
  }
}

TEST_F(AwsTest, OwnTagsAreOnAllThatAPoolCreates) {
  spec_.provider.settings["tags"] = "CostCenter=1234";
  const auto [aws, life] = opened();
  for (const DoubleInstance& one : amazon_.instances) {
    EXPECT_EQ(one.tags.at("CostCenter"), "1234");
    EXPECT_EQ(one.tags.at(kPoolTag), life.cluster.id);
  }
  ASSERT_THAT(amazon_.groups, SizeIs(1));
  EXPECT_EQ(amazon_.groups.front().tags.at("CostCenter"), "1234");
  EXPECT_TRUE(aws->teardown(life.cluster, soon()));
  EXPECT_EQ(amazon_.standing(), 0);
  spec_.provider.settings["tags"] = "skyward:pool=mine";
  EXPECT_FALSE(provider()->check(spec_));
}

TEST_F(AwsTest, WhatSpotMachinesCostIsAskedAgainInOneRequest) {
  for (const bool spot : {true, false}) {
    forget();
    spec_.spot = spot ? Spot::Always() : Spot::Never();
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    ASSERT_TRUE(offers);
    const auto cluster = aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(cluster);
    const auto machines = aws->provision(*cluster, 2, 0, soon());
    ASSERT_TRUE(machines) << machines.error().message;
    const std::vector<std::string> ids = {machines->at(0).id, machines->at(1).id};
    amazon_.spot_price = "0.05";
    amazon_.spot_price_age = 10min;
    const int before = amazon_.requests;
    const auto charges = aws->charges(*cluster, ids, soon());
    ASSERT_TRUE(charges) << charges.error().message;
    EXPECT_EQ(amazon_.requests - before, spot ? 2 : 1) << "one tells which of them have ended";
    std::map<std::string, double> prices;
    for (const Charge& one : *charges) {
      if (!one.hourly) continue;
      prices[one.instance] = *one.hourly;
      EXPECT_NEAR(seconds(one.since), 600, 2) << "when it changed, not when it was asked for";
    }
    std::map<std::string, double> expected;
    constexpr double kWithAddress = 0.05 + 0.005;
    if (spot) expected = {{ids[0], kWithAddress}, {ids[1], kWithAddress}};
    EXPECT_EQ(prices, expected);
    ASSERT_TRUE(aws->terminate(*cluster, ids, soon()));
    ASSERT_TRUE(aws->teardown(*cluster, soon()));
  }
}

// This computer was asleep, and their lease expired.
TEST_F(AwsTest, WhenMachinesEndedByThemselvesIsToldToTheMeter) {
  spec_.spot = Spot::Never();
  spec_.lease = 10min;
  spec_.nodes = 4;
  const auto [aws, life] = opened();
  std::vector<std::string> ids;
  for (const Instance& one : life.instances) ids.push_back(one.id);
  const auto ends = [&] {
    std::map<std::string, Duration> out;
    const auto charges = aws->charges(life.cluster, ids, soon());
    EXPECT_TRUE(charges);
    for (const Charge& one : *charges) {
      if (one.ended) out[one.instance] = *one.ended;
    }
    return out;
  };
  EXPECT_THAT(ends(), testing::IsEmpty()) << "they stand";
  const auto end = [&](std::size_t machine, const char* why) {
    amazon_.instances[machine].ended = fixture_.now + 10min;
    amazon_.instances[machine].reason = why;
  };
  end(0, "Client.UserInitiatedShutdown");
  end(1, "Client.InstanceInitiatedShutdown");
  end(2, "Client.InstanceInitiatedShutdown");
  amazon_.instances[3].id = "i-forgotten";
  fixture_.now += 15min;
  ASSERT_TRUE(aws->terminate(life.cluster, {ids[2]}, soon()));
  fixture_.now += 25min;
  fixture_.asleep += 30min;  // for the double, no time passes meanwhile
  const auto told = ends();
  ASSERT_EQ(told.size(), 4U);
  EXPECT_NEAR(seconds(told.at(ids[0])), seconds(30min), 5);
  EXPECT_NEAR(seconds(told.at(ids[1])), seconds(30min), 5) << "at the latest";
  EXPECT_NEAR(seconds(told.at(ids[2])), seconds(55min), 5) << "when it was released";
  EXPECT_NEAR(seconds(told.at(ids[3])), seconds(30min), 5) << "at the latest";
  amazon_.instances[3].id = ids[3];
  ASSERT_TRUE(aws->terminate(life.cluster, ids, soon()));
  ASSERT_TRUE(aws->teardown(life.cluster, soon()));
}

TEST_F(AwsTest, WhatAmazonTookBackIsToldToTheMeter) {
  spec_.spot = Spot::Always();
  const auto aws = provider();
  EXPECT_EQ(aws->capabilities().billing.free_when_taken_back, 1h);
  const auto offers = aws->offers(spec_, soon());
  ASSERT_TRUE(offers);
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster);
  const auto machines = aws->provision(*cluster, 2, 0, soon());
  ASSERT_TRUE(machines) << machines.error().message;
  const std::vector<std::string> ids = {machines->at(0).id, machines->at(1).id};
  for (DoubleInstance& one : amazon_.instances) {
    one.ended = fixture_.now;
    one.reason =
        one.id == ids[0] ? "Server.SpotInstanceTermination" : "Client.UserInitiatedShutdown";
  }
  const auto taken_back = [&] {
    std::vector<std::string> out;
    const auto charges = aws->charges(*cluster, ids, soon());
    EXPECT_TRUE(charges);
    for (const Charge& one : *charges) {
      if (one.taken_back) out.push_back(one.instance);
    }
    return out;
  };
  EXPECT_THAT(taken_back(), testing::IsEmpty()) << "nobody has given it up yet";
  ASSERT_TRUE(aws->terminate(*cluster, ids, soon()));
  EXPECT_THAT(taken_back(), testing::ElementsAre(ids[0]));
  EXPECT_THAT(taken_back(), testing::IsEmpty()) << "it is told once";
  const auto ledger = open_ledger(fixture_.world);
  ASSERT_TRUE(ledger) << ledger.error().message;
  const auto entries = (*ledger)->entries(cluster->id, false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) {
    if (entry.kind != "instance") continue;
    EXPECT_EQ(entry.hourly_micro_dollars == kTakenBackFree, entry.id == ids[0]) << entry.id;
  }
  ASSERT_TRUE(aws->teardown(*cluster, soon()));
}

TEST_F(AwsTest, ThirtyTwoMachinesNeedAsManyRequestsAsOne) {
  const auto requests = [&](int nodes) {
    forget();
    spec_.nodes = nodes;
    const auto aws = provider();
    EXPECT_TRUE(live(*aws).status);
    return amazon_.requests;
  };
  EXPECT_EQ(requests(2), requests(32));
}

TEST_F(AwsTest, APoolHasMoreMachinesThanOneFilterMayName) {
  spec_.nodes = 250;
  (void)lived();
  EXPECT_THAT(amazon_.instances, SizeIs(251));
  EXPECT_EQ(amazon_.standing(), 0);
}

TEST_F(AwsTest, TheWayToAMachineIsPinnedToItsKey) {
  fixture_.world.run = [](const io::SpawnOptions& options, Duration timeout) {
    return io::run_command(options, timeout);  // the real ssh-keygen
  };
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto instances = aws->provision(*cluster, 1, 0, soon());
  ASSERT_TRUE(instances);
  const Connection connection = aws->connection(*cluster, instances->front());
  std::string line;
  for (const std::string& word : connection.command) line += word + " ";
  EXPECT_THAT(line, HasSubstr("StrictHostKeyChecking=yes"));
  EXPECT_THAT(line, HasSubstr("GlobalKnownHostsFile=/dev/null"));
  EXPECT_THAT(line, HasSubstr("-l ubuntu"));
  EXPECT_THAT(line, HasSubstr("203.0.113.9"));
  const Bootstrap bootstrap = aws->bootstrap(*cluster, instances->front());
  EXPECT_THAT(bootstrap.script, HasSubstr("touch /run/skyward/claimed"));
  EXPECT_THAT(bootstrap.end_command,
              ::testing::ElementsAre("sudo", "-n", "/usr/local/sbin/skyward-end"));
  const Error error = aws->explain(
      instances->front(),
      {ErrorKind::lost, "ssh: connect to host 203.0.113.9 port 22: Connection timed out", ""});
  EXPECT_THAT(error.message, HasSubstr("ubuntu@203.0.113.9 does not answer"));
  EXPECT_THAT(error.hint, HasSubstr("the address that it had when the pool opened"));
  // What stays on this disk has no host key: whoever has one can pretend to be the machine.
  for (const auto& file : std::filesystem::recursive_directory_iterator(home_ + "/state")) {
    if (!file.is_regular_file() || file.path().filename() == "login") continue;
    const auto text = io::read_file(file.path());
    if (text) {
      EXPECT_FALSE(text->contains("PRIVATE KEY")) << file.path();
    }
  }
  EXPECT_TRUE(aws->teardown(*cluster, soon()));
  EXPECT_EQ(amazon_.standing(), 0);
}

TEST_F(AwsTest, ListingsThatLagDeceiveNobody) {
  amazon_.listing_lag = 30s;
  const auto aws = provider();
  const Life life = live(*aws);
  EXPECT_TRUE(life.status) << life.status.error().message;
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
}

// Machines keep their group while they shut down: that is no failure, and costs nothing.
TEST_F(AwsTest, AGroupIsLeftUntilItsMachinesHaveShutDown) {
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(aws->provision(*cluster, 2, 0, soon()));
  const Time begin = fixture_.now;
  const Status closed = aws->teardown(*cluster, soon());
  EXPECT_TRUE(closed) << closed.error().message;
  EXPECT_LE(fixture_.now - begin, 15s) << "nobody waits for it";
  EXPECT_FALSE(std::filesystem::exists(home_ + "/state/skyward/clouds/" + cluster->id));
  EXPECT_THAT(amazon_.groups, SizeIs(1));
  EXPECT_THAT(open_pools(), SizeIs(1)) << "it is in the ledger";
  const Time swept = fixture_.now;
  const std::vector<Swept> told = gc();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].action, SweepAction::kept);
  EXPECT_EQ(told[0].why, "its machine is still shutting down; run gc again in a few minutes");
  EXPECT_LE(fixture_.now - swept, 20s);
  fixture_.now += 6min;
  const auto another = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(another) << another.error().message;
  EXPECT_THAT(amazon_.groups, SizeIs(1)) << "the next pool takes it away";
  EXPECT_EQ(amazon_.groups.front().name, "skyward-" + another->id);
  EXPECT_THAT(open_pools(), SizeIs(1));
  EXPECT_TRUE(aws->teardown(*another, soon()));
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(AwsTest, ANewGroupThatIsNotKnownYetIsAwaited) {
  amazon_.group_lag = 20s;
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_THAT(amazon_.groups.front().rules, SizeIs(2));
  amazon_.groups.front().made = fixture_.now;  // as other servers of Amazon's see it
  const auto machines = aws->provision(*cluster, 1, 0, soon());
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_TRUE(aws->teardown(*cluster, soon()));
  const auto empty = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(empty);
  amazon_.groups.back().made = fixture_.now;
  EXPECT_TRUE(aws->teardown(*empty, soon()));
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty()) << "unknown is not gone";
}

// EC2 says RequestExpired of a session that is over; tools write new keys into the file each hour.
TEST_F(AwsTest, ASessionThatIsOverIsReadAnewAndTheMachinesEnd) {
  const auto keys = [&](const std::string& token) {
    std::filesystem::create_directories(home_ + "/.aws");
    std::ofstream(home_ + "/.aws/credentials")
        << "[default]\naws_access_key_id = AKIA\naws_secret_access_key = secret\n"
        << "aws_session_token = " << token << "\n";
  };
  fixture_.variables.erase("AWS_ACCESS_KEY_ID");
  fixture_.variables.erase("AWS_SECRET_ACCESS_KEY");
  keys("first");
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(aws->provision(*cluster, 2, 0, soon()));
  amazon_.over_token = "first";
  keys("second");
  const Status closed = aws->teardown(*cluster, soon());
  EXPECT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(amazon_.standing(), 0);
}

// As CI passes them on.
TEST_F(AwsTest, KeysInTheEnvironmentThatEndBeforeThePoolAreToldOf) {
  std::vector<std::string> told;
  fixture_.world.tell = [&](const std::string& line) { told.push_back(line); };
  fixture_.variables["AWS_SESSION_TOKEN"] = "first";
  fixture_.variables["AWS_CREDENTIAL_EXPIRATION"] = "2023-11-14T22:43:20+00:00";  // in 30 min
  spec_.timeout = 20min;
  {
    const auto [aws, life] = opened();
    EXPECT_THAT(told, Not(Contains(HasSubstr("cannot be renewed"))));
    EXPECT_TRUE(aws->teardown(life.cluster, soon()));
  }
  spec_.timeout = 1h;
  const auto [aws, life] = opened();
  EXPECT_THAT(told,
              Contains(testing::AllOf(HasSubstr("cannot be renewed"),
                                      HasSubstr("terminate themselves when their lease expires"))));
  amazon_.over_token = "first";
  fixture_.now += 31min;
  const Status refused = aws->terminate(life.cluster, {life.instances[0].id}, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::denied);
  EXPECT_THAT(refused.error().message, HasSubstr("the machines terminate themselves when"));
  const Status left = aws->teardown(life.cluster, soon());
  EXPECT_THAT(left.error().message, HasSubstr("the machines terminate themselves when"));
  amazon_.over_token.clear();
  EXPECT_TRUE(aws->teardown(life.cluster, soon()));
  EXPECT_EQ(amazon_.standing(), 0);
}

TEST_F(AwsTest, ASignOnSessionThatEndsBeforeThePoolIsToldOf) {
  std::vector<std::string> told;
  fixture_.world.tell = [&](const std::string& line) { told.push_back(line); };
  sign_on("2023-11-14T22:43:20Z");  // in 30 min
  const auto online = fixture_.http->answer;
  fixture_.http->answer = [&](const io::HttpRequest& request) -> Result<io::HttpReply> {
    if (request.url.contains("//portal.sso.")) return short_keys();
    return online(request);
  };
  for (const Duration timeout : {20min, 60min}) {
    EXPECT_THAT(told, Not(Contains(HasSubstr("cannot be renewed"))));
    spec_.timeout = timeout;
    const auto [aws, life] = opened();
    EXPECT_TRUE(aws->teardown(life.cluster, soon()));
  }
  EXPECT_THAT(told, Contains(HasSubstr("cannot be renewed")));
}

TEST_F(AwsTest, AnotherAddressOfThisComputerIsAdmittedBeforeMoreIsLaunched) {
  amazon_.proxy_address = "198.51.100.1";
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(aws->provision(*cluster, 1, 0, soon()));
  const auto& rules = amazon_.groups.front().rules;
  EXPECT_THAT(rules, SizeIs(2));
  EXPECT_THAT(rules, Contains(HasSubstr("203.0.113.5/32"))) << "SSH goes past the proxy";
  ASSERT_TRUE(aws->provision(*cluster, 1, 1, soon()));
  EXPECT_THAT(rules, SizeIs(2));
  amazon_.address = "203.0.113.77";
  ASSERT_TRUE(aws->provision(*cluster, 1, 2, soon()));
  EXPECT_THAT(rules, Contains(HasSubstr("203.0.113.77/32")));
  amazon_.address = "";
  ASSERT_TRUE(aws->provision(*cluster, 1, 3, soon()));
  EXPECT_THAT(rules, Contains(HasSubstr("198.51.100.1/32"))) << "there is no other way out";
  EXPECT_TRUE(aws->teardown(*cluster, soon()));
}

// A machine that was told of may be unknown for minutes: it is asked to end until it is heard.
TEST_F(AwsTest, MachinesThatAreNotKnownYetAreNotGone) {
  auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  const auto machines = aws->provision(*cluster, 2, 0, soon());
  ASSERT_TRUE(machines);
  amazon_.claim_all();
  amazon_.instances.front().launched = fixture_.now;
  amazon_.instances.back().launched = fixture_.now - 10min;
  amazon_.listing_lag = 150s;
  fixture_.now += 10s;
  EXPECT_FALSE(aws->teardown(*cluster, fixture_.now + 90s));
  EXPECT_EQ(amazon_.standing(), 1);
  EXPECT_THAT(open_pools(), SizeIs(1));
  aws.reset();
  fixture_.now += 60s;
  (void)gc();
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(AwsTest, AnotherProcessEndsAPoolFromItsClusterAlone) {
  Cluster cluster;
  {
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    cluster = *aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(aws->provision(cluster, 2, 0, soon()));
  }
  const auto other = provider();
  EXPECT_TRUE(other->teardown(cluster, soon()));
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
  EXPECT_TRUE(other->terminate(cluster, {"i-of-nobody"}, soon()));
}

const Status kDiskFull =
    fail(ErrorKind::unavailable, "the ledger cannot be used: the disk is full");

TEST_F(AwsTest, WithoutALedgerNothingIsLaunched) {
  ledger_watch_.trouble = kDiskFull;
  const auto aws = provider();
  EXPECT_THAT(live(*aws).status.error().message, HasSubstr("the disk is full"));
  EXPECT_THAT(amazon_.actions, Not(Contains("CreateSecurityGroup")));
  EXPECT_TRUE(std::filesystem::is_empty(home_ + "/state/skyward/clouds"));
}

// The machines are not listed yet, and the ledger cannot be read: the provider knows them itself.
TEST_F(AwsTest, ALedgerThatFailsKeepsNoMachineRunning) {
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  const auto machines = aws->provision(*cluster, 3, 0, soon());
  ASSERT_TRUE(machines) << machines.error().message;
  ledger_watch_.trouble = kDiskFull;
  const std::vector<std::string> one = {machines->front().id};
  EXPECT_TRUE(aws->terminate(*cluster, one, soon())) << "it has ended, whatever the ledger says";
  EXPECT_EQ(amazon_.standing(), 2);
  for (DoubleInstance& each : amazon_.instances) each.launched = fixture_.now;
  amazon_.listing_lag = 30s;
  const Status closed = aws->teardown(*cluster, soon());
  ASSERT_FALSE(closed);
  EXPECT_THAT(closed.error().message, HasSubstr("everything of the pool has terminated"));
  EXPECT_THAT(closed.error().message, HasSubstr("the disk is full"));
  EXPECT_THAT(closed.error().hint, HasSubstr("'skyward gc' removes it from the ledger"));
  EXPECT_EQ(amazon_.standing(), 0);
  ledger_watch_.trouble = {};
  EXPECT_THAT(open_pools(), SizeIs(1));
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(AwsTest, ALedgerThatFailsForAWhileIsToldInTheEnd) {
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  const auto machines = aws->provision(*cluster, 2, 0, soon());
  ASSERT_TRUE(machines);
  ledger_watch_.trouble = kDiskFull;
  EXPECT_TRUE(aws->terminate(*cluster, {machines->front().id, machines->back().id}, soon()));
  ledger_watch_.trouble = {};
  EXPECT_TRUE(aws->teardown(*cluster, soon()));
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(AwsTest, AnotherProcessWithoutALedgerEndsWhatIsMarked) {
  Cluster cluster;
  {
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    cluster = *aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(aws->provision(cluster, 2, 0, soon()));
  }
  ledger_watch_.trouble = kDiskFull;
  EXPECT_FALSE(provider()->teardown(cluster, soon()));
  EXPECT_EQ(amazon_.standing(), 0);
  ledger_watch_.trouble = {};
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

TEST_F(AwsTest, MachinesThatCannotBeSeenAreEndedAllTheSame) {
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(aws->provision(*cluster, 2, 0, soon()));
  amazon_.refuse = [](const std::string& action, const Ec2Double::Form&) {
    return action == "DescribeInstances" ? std::pair(403, std::string("UnauthorizedOperation"))
                                         : std::pair(0, std::string());
  };
  const Status closed = aws->teardown(*cluster, soon());
  EXPECT_THAT(closed.error().message, HasSubstr("UnauthorizedOperation"));
  EXPECT_EQ(amazon_.standing(), 0);
}

// What one try has made, while the tries after it are refused: it is found by its mark.
TEST_F(AwsTest, WhatARefusedRequestHadMadeIsEnded) {
  for (const char* code : {"RequestLimitExceeded", "ExpiredToken", "InsufficientInstanceCapacity",
                           "UnauthorizedOperation"}) {
    for (const char* wanted : {"RunInstances", "CreateSecurityGroup"}) {
      SCOPED_TRACE(fmt::format("{}, {}", wanted, code));
      forget();
      amazon_.listing_lag = 30s;
      int tries = 0;
      amazon_.lose_reply = [&](const std::string& action) { return action == wanted; };
      amazon_.refuse = [&](const std::string& action, const Ec2Double::Form&) {
        return action == wanted && ++tries > 1 ? std::pair(400, std::string(code))
                                               : std::pair(0, std::string());
      };
      const auto aws = provider();
      (void)live(*aws);  // a group may have been found, and will do
      EXPECT_GE(tries, 2);
      EXPECT_EQ(amazon_.standing(), 0);
      fixture_.now += 60s;
      (void)gc();
      let_go();
      EXPECT_THAT(amazon_.groups, IsEmpty());
      fixture_.now += 1800s;
      (void)gc();
      let_go();
      EXPECT_THAT(open_pools(), IsEmpty());
    }
  }
}

TEST_F(AwsTest, EveryRefusalOfEveryRequestLeavesNothing) {
  {
    const auto aws = provider();
    ASSERT_TRUE(live(*aws).status);
  }
  const int all = amazon_.requests;
  for (const char* code : {"UnauthorizedOperation", "InsufficientInstanceCapacity", "Blocked"}) {
    for (int at = 1; at <= all; ++at) {
      SCOPED_TRACE(fmt::format("{} at request {}", code, at));
      forget();
      amazon_.refuse = [&](const std::string&, const Ec2Double::Form&) {
        return amazon_.requests == at ? std::pair(400, std::string(code))
                                      : std::pair(0, std::string());
      };
      {
        const auto aws = provider();
        (void)live(*aws);
      }
      amazon_.refuse = nullptr;
      (void)gc();
      EXPECT_EQ(amazon_.standing(), 0);
      fixture_.now += 60s;
      (void)gc();
      let_go();
      EXPECT_THAT(amazon_.groups, IsEmpty());
      let_go();
      EXPECT_THAT(open_pools(), IsEmpty());
    }
  }
}

TEST_F(AwsTest, NoMangledReplyLeavesAnything) {
  {
    const auto aws = provider();
    ASSERT_TRUE(live(*aws).status);
  }
  const int all = amazon_.requests;
  const std::vector<std::function<std::string(const std::string&)>> mangles = {
      [](const std::string&) { return ""; },
      [](const std::string&) { return "<R/>"; },
      [](const std::string&) { return "<html><p>Bad day<br></html>"; },
      [](const std::string& body) { return body.substr(0, body.size() / 2); },
      [](const std::string& body) { return body.substr(0, body.size() - 1) + '\0'; },
      // Of the form that was asked for, and of other types inside.
      [](const std::string&) {
        return R"({"Parameter":null,"PriceList":[null,3,"{}","{\"terms\":{\"OnDemand\":[7]}}"],)"
               R"("NextToken":null})";
      },
      [](const std::string&) {
        return R"({"Parameter":{"Value":[1]},"PriceList":{"a":1},"NextToken":{"b":2}})";
      },
      [](const std::string&) { return R"({"Parameter":7,"PriceList":null,"NextToken":1e300})"; },
      [](const std::string& body) {
        const std::string root = body.substr(1, body.find('>') - 1);
        return body.starts_with('<')
                   ? fmt::format("<{0}><instancesSet>7</instancesSet><nextToken/></{0}>", root)
                   : "[[]]";
      },
  };
  for (std::size_t how = 0; how < mangles.size(); ++how) {
    for (int at = 1; at <= all; ++at) {
      SCOPED_TRACE(fmt::format("mangled by {} at request {}", how, at));
      forget();
      amazon_.mangle = [&](io::HttpReply& reply) {
        if (amazon_.requests == at) reply.body = mangles[how](reply.body);
      };
      {
        const auto aws = provider();
        (void)live(*aws);
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
  }
}

TEST_F(AwsTest, AMinuteWithoutANetworkCostsNoLaunch) {
  const auto online = fixture_.http->answer;
  for (const bool by_single_sign_on : {false, true}) {
    if (by_single_sign_on) sign_on();
    for (const ErrorKind kind : {ErrorKind::unavailable, ErrorKind::timeout}) {
      forget();
      std::optional<Time> off;  // since the machines were launched
      fixture_.http->answer = [&](const io::HttpRequest& request) -> Result<io::HttpReply> {
        if (!off && !amazon_.instances.empty()) off = fixture_.now;
        const bool is_online = !off || fixture_.now >= *off + 60s;
        if (is_online && request.url.contains("//portal.sso.")) return short_keys();
        if (is_online) return online(request);
        if (kind == ErrorKind::timeout) fixture_.now += 20s;
        return fail(kind, "Could not resolve host");
      };
      const auto aws = provider();
      const Life life = live(*aws);
      EXPECT_TRUE(life.status) << life.status.error().message;
      EXPECT_GE(fixture_.now, off.value() + 60s);
      EXPECT_EQ(amazon_.standing(), 0);
      fixture_.http->answer = online;
    }
  }
}

TEST_F(AwsTest, WhatAFailedLaunchLeavesIsToldWhenThePoolCloses) {
  const auto online = fixture_.http->answer;
  fixture_.http->answer = [&](const io::HttpRequest& request) -> Result<io::HttpReply> {
    if (amazon_.instances.empty()) return online(request);
    return fail(ErrorKind::unavailable, "Could not resolve host");
  };
  const auto aws = provider();
  const Life life = open(*aws);
  ASSERT_FALSE(life.status);
  EXPECT_FALSE(aws->teardown(life.cluster, soon()));
  EXPECT_THAT(aws->standing(life.cluster),
              ElementsAre(amazon_.instances[0].id, amazon_.instances[1].id));
  fixture_.http->answer = online;
  EXPECT_TRUE(aws->terminate(life.cluster, aws->standing(life.cluster), soon()));
  EXPECT_THAT(aws->standing(life.cluster), IsEmpty());
  EXPECT_EQ(amazon_.standing(), 0);
  EXPECT_TRUE(aws->teardown(life.cluster, soon()));
}

// A proxy that asks everybody to sign in.
TEST_F(AwsTest, PagesOfOthersCloseNoPool) {
  const auto [aws, life] = opened();
  amazon_.mangle = [](io::HttpReply& reply) { reply.body = "<R/>"; };
  EXPECT_FALSE(aws->terminate(life.cluster, {life.instances.front().id}, soon()));
  EXPECT_FALSE(aws->teardown(life.cluster, soon()));
  EXPECT_THAT(open_pools(), SizeIs(1));
  amazon_.mangle = nullptr;
  EXPECT_TRUE(aws->teardown(life.cluster, soon()));
  EXPECT_EQ(amazon_.standing(), 0);
}

TEST_F(AwsTest, EveryRequestOfALifeIsWhatAmazonsModelSays) {
  if (published_data().empty()) GTEST_SKIP() << "Amazon's service models are not on this machine";
  spec_.spot = Spot::Always();
  {
    const auto aws = provider();
    ASSERT_TRUE(live(*aws).status);
  }
  (void)gc();
  std::map<std::string, ApiModel> models;
  models.emplace("ec2", ApiModel("ec2/2016-11-15"));
  models.emplace("sts", ApiModel("sts/2011-06-15"));
  models.emplace("ssm", ApiModel("ssm/2014-11-06"));
  models.emplace("pricing", ApiModel("pricing/2017-10-15"));
  int judged = 0;
  for (const io::HttpRequest& request : fixture_.http->requests) {
    SCOPED_TRACE(request.url + " " + request.body);
    if (request.url.contains("checkip")) continue;
    const std::size_t begin = request.url.find("://") + 3;
    std::string service = request.url.substr(begin, request.url.find('.') - begin);
    if (service == "api") service = "pricing";
    std::string target;
    for (const auto& [name, value] : request.headers) {
      if (name == "X-Amz-Target") target = value.substr(value.find('.') + 1);
    }
    ASSERT_TRUE(models.contains(service)) << service;
    EXPECT_THAT(target.empty() ? models.at(service).judge_form(request.body)
                               : models.at(service).judge_json(target, request.body),
                IsEmpty());
    ++judged;
  }
  EXPECT_GT(judged, 25);
}

TEST_F(AwsTest, GcLeavesAPoolAtWorkAlone) {
  const auto aws = provider();
  const auto offers = aws->offers(spec_, soon());
  const auto cluster = aws->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(aws->provision(*cluster, 2, 0, soon()));
  amazon_.claim_all();
  fixture_.now += 10h;  // long past the time that it gave itself
  const std::vector<Swept> told = gc();
  EXPECT_THAT(told, SizeIs(3));
  for (const Swept& one : told) EXPECT_EQ(one.action, SweepAction::kept);
  EXPECT_EQ(amazon_.standing(), 2);
  EXPECT_TRUE(aws->teardown(*cluster, soon()));
}

TEST_F(AwsTest, MachinesThatEndedThemselvesAreStruckOff) {
  {
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    const auto cluster = aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(aws->provision(*cluster, 2, 0, soon()));
  }
  for (DoubleInstance& one : amazon_.instances) one.ended = fixture_.now;
  fixture_.now += 5s;  // they are listed still, as ended
  for (const Swept& one : gc()) EXPECT_EQ(one.action, SweepAction::kept) << one.why;
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

TEST_F(AwsTest, WhatStandsOfAPoolThatIsOverHereIsNotAnotherComputers) {
  Cluster cluster;
  {
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    cluster = *aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(aws->provision(cluster, 2, 0, soon()));
  }
  amazon_.claim_all();
  {
    const auto ledger = open_ledger(fixture_.world);
    ASSERT_TRUE((*ledger)->close_pool(cluster.id, fixture_.world.wall_s()));
  }
  for (const Swept& one : gc()) EXPECT_EQ(one.action, at_once(one)) << one.why;
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

TEST_F(AwsTest, MachinesWithoutTheirMarksAreKnownByTheirIds) {
  {
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    const auto cluster = aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(aws->provision(*cluster, 2, 0, soon()));
  }
  amazon_.claim_all();
  for (DoubleInstance& one : amazon_.instances) one.tags.clear();
  fixture_.now += 10min;
  EXPECT_THAT(gc({.dry_run = true}), SizeIs(3));
  EXPECT_EQ(amazon_.standing(), 2);
  const std::vector<Swept> told = gc();
  EXPECT_THAT(told, SizeIs(3));
  for (const Swept& one : told) EXPECT_EQ(one.action, at_once(one)) << one.why;
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(AwsTest, AnotherComputerWaitsForThePoolsOwnTime) {
  {
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    const auto cluster = aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(aws->provision(*cluster, 2, 0, soon()));
  }
  amazon_.claim_all();
  fixture_.variables["XDG_STATE_HOME"] = home_ + "/elsewhere";
  for (const Swept& one : gc()) EXPECT_EQ(one.action, SweepAction::kept) << one.why;
  EXPECT_EQ(amazon_.standing(), 2);
  fixture_.now += 2h;
  for (const Swept& one : gc()) EXPECT_EQ(one.action, at_once(one)) << one.why;
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

TEST_F(AwsTest, SpotPartsAreGivenBackWhereTheRestIsMissing) {
  spec_.nodes = 4;
  spec_.spot = Spot::Percent(0.5);
  amazon_.refuse = [](const std::string& action, const Ec2Double::Form& form) {
    const bool spot = form.contains("InstanceMarketOptions.MarketType");
    const bool all = action == "RunInstances" && form.at("MaxCount") == "4";
    const bool rest = action == "RunInstances" && !spot;
    return all || rest ? std::pair(500, std::string("InsufficientInstanceCapacity"))
                       : std::pair(0, std::string());
  };
  const auto aws = provider();
  const Life life = live(*aws);
  ASSERT_FALSE(life.status);
  EXPECT_EQ(life.status.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(life.status.error().message, HasSubstr("no capacity for 4 machines"));
  EXPECT_GT(amazon_.instances.size(), 0U);
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

}  // namespace
}  // namespace skyward::provider::aws
