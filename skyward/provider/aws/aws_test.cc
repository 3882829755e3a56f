#include "skyward/provider/aws/aws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <ranges>

#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/aws/api_model_fixture.h"
#include "skyward/provider/aws/ec2_double_fixture.h"
#include "skyward/provider/aws/sweep.h"
#include "skyward/provider/open_pools.h"

namespace skyward::provider::aws {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A computer with a home of its own, and Amazon on virtual time.
class AwsTest : public ::testing::Test {
 protected:
  AwsTest() {
    std::filesystem::create_directories(home_);
    std::ofstream(home_ + "/agent") << "#!/bin/sh\n";
    std::filesystem::permissions(home_ + "/agent", std::filesystem::perms::owner_all);
    fixture_.variables = {{"HOME", home_},
                          {"XDG_STATE_HOME", home_ + "/state"},
                          {"AWS_ACCESS_KEY_ID", "AKIA"},
                          {"AWS_SECRET_ACCESS_KEY", "secret"},
                          {"AWS_REGION", "eu-west-1"},
                          {"AWS_EC2_METADATA_DISABLED", "true"}};
    // Keys are real files; what is cached between two lives would hide requests.
    fixture_.world.read_file = [](const std::string& path) { return io::read_file(path); };
    fixture_.world.write_file = [](const std::string& path, std::string_view text) -> Status {
      if (path.contains("/.cache/")) return {};
      return io::write_private_file(path, text);
    };
    // In the place of ssh-keygen, for hundreds of lives.
    fixture_.world.run = [](const io::SpawnOptions& options,
                            Duration) -> Result<io::CommandResult> {
      const std::string path = options.command.back();
      std::ofstream(path) << "-----BEGIN OPENSSH PRIVATE KEY-----\n";
      std::ofstream(path + ".pub") << "ssh-ed25519 AAAA skyward\n";
      return io::CommandResult{};
    };
    fixture_.world.wall_s = [this] {
      return 1'700'000'000 +
             std::chrono::duration_cast<std::chrono::seconds>(fixture_.now - start_).count();
    };
    spec_.provider = {.name = "aws", .settings = {{"region", "eu-west-1"}}};
    spec_.agent_path = home_ + "/agent";
    spec_.runtime.command = {home_ + "/agent"};
    spec_.nodes = 2;
    spec_.timeout = 1h;
    spec_.spot = Spot::Never();
  }
  ~AwsTest() override { std::filesystem::remove_all(home_); }

  std::unique_ptr<Provider> provider() {
    auto made = make_aws(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  Time soon() const { return fixture_.now + 300s; }

  struct Life {
    Status status;  // of the first verb that failed
    Cluster cluster;
    std::vector<Instance> instances;
  };
  // A pool from its opening to its end: two machines, one of them replaced.
  Life live(Provider& aws) {
    Life life;
    const auto failed = [&](const auto& result) {
      life.status = std::unexpected(result.error());
      if (!life.cluster.id.empty()) (void)aws.teardown(life.cluster, soon());
      return life;
    };
    if (Status status = aws.check(spec_); !status) return failed(status);
    const auto offers = aws.offers(spec_, soon());
    if (!offers) return failed(offers);
    const auto cluster = aws.prepare(spec_, offers->front(), soon());
    if (!cluster) return failed(cluster);
    life.cluster = *cluster;
    const auto instances = aws.provision(*cluster, spec_.nodes, 0, soon());
    if (!instances) return failed(instances);
    life.instances = *instances;
    const auto ended = aws.terminate(*cluster, {instances->front().id}, soon());
    if (!ended) return failed(ended);
    const auto another = aws.provision(*cluster, 1, 0, soon());
    if (!another) return failed(another);
    std::vector<std::string> ids = {another->front().id};
    for (const Instance& one : *instances | std::views::drop(1)) ids.push_back(one.id);
    if (Status status = aws.terminate(*cluster, ids, soon()); !status) return failed(status);
    if (Status status = aws.teardown(*cluster, soon()); !status) return failed(status);
    return life;
  }

  std::vector<Swept> gc(SweepOptions options = {}) {
    std::vector<Swept> told;
    const Status status = sweep(
        fixture_.world, options, [&](const Swept& swept) { told.push_back(swept); },
        fixture_.now + 600s);
    EXPECT_TRUE(status) << status.error().message;
    return told;
  }
  std::vector<LedgerPool> open_pools() {
    auto ledger = open_ledger(fixture_.world);
    EXPECT_TRUE(ledger);
    return *(*ledger)->pools(true);
  }
  // Everything as if nothing had ever been.
  void forget() {
    std::filesystem::remove_all(home_ + "/state");
    amazon_.instances.clear();
    amazon_.groups.clear();
    amazon_.actions.clear();
    amazon_.requests = 0;
    amazon_.die_before = amazon_.die_after = -1;
    amazon_.lose_reply = nullptr;
    amazon_.refuse = nullptr;
    amazon_.mangle = nullptr;
  }

  // In memory where that is to be had: the ledgers of hundreds of lives are written through.
  const std::string home_ =
      (io::is_writable_directory("/dev/shm") ? std::string("/dev/shm/") : ::testing::TempDir()) +
      "skyward-aws-" + io::random_hex(8);
  WorldFixture fixture_;
  const Time start_ = fixture_.now;
  Ec2Double amazon_{fixture_};
  PoolSpec spec_;
};

TEST_F(AwsTest, APoolLivesAndLeavesNothing) {
  const auto aws = provider();
  const Life life = live(*aws);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_EQ(amazon_.instances.size(), 3U);
  EXPECT_EQ(amazon_.standing(), 0);
  EXPECT_THAT(amazon_.groups, IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(home_ + "/state/skyward/clouds/" + life.cluster.id));
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_EQ(life.instances.front().public_ip, "203.0.113.9");
  for (const DoubleInstance& one : amazon_.instances) {
    EXPECT_EQ(one.zone, amazon_.instances.front().zone) << "a pool stands in one zone";
  }
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
  EXPECT_THAT(amazon_.groups, IsEmpty());
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
  EXPECT_THAT(amazon_.groups, IsEmpty());
  EXPECT_TRUE(other->terminate(cluster, {"i-of-nobody"}, soon()));
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
      EXPECT_THAT(amazon_.groups, IsEmpty());
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
      EXPECT_THAT(amazon_.groups, IsEmpty());
      EXPECT_THAT(open_pools(), IsEmpty());
    }
  }
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

// The driver is killed before and after each of its requests; then one gc runs. With listings that
// lag, the machines' own timers come first.
struct Fault {
  const char* name;
  Duration lag{};
  bool lost = false;       // every second reply is lost
  bool throttled = false;  // every second request is refused for its speed
  bool broken = false;     // every second reply is a 500
};

class DeathTest : public AwsTest, public ::testing::WithParamInterface<Fault> {
 protected:
  void set_faults() {
    const Fault& fault = GetParam();
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
};

TEST_P(DeathTest, AtEveryRequestLeavesNothing) {
  set_faults();
  {
    const auto aws = provider();
    const Life life = live(*aws);
    ASSERT_TRUE(life.status) << life.status.error().message;
  }
  const int all = amazon_.requests;
  int points = 0;
  int left_by_death = 0;
  for (int at = 1; at <= all; ++at) {
    for (const bool after : {false, true}) {
      SCOPED_TRACE(fmt::format("killed {} request {}", after ? "after" : "before", at));
      forget();
      set_faults();
      (after ? amazon_.die_after : amazon_.die_before) = at;
      bool died = false;
      try {
        const auto aws = provider();
        (void)live(*aws);
      } catch (const DriverDied&) {
        died = true;
      }
      EXPECT_TRUE(died);
      ++points;
      left_by_death += amazon_.standing();
      amazon_.die_before = amazon_.die_after = -1;
      if (GetParam().lag > Duration{}) fixture_.now += 920s;  // the dead man's limit
      (void)gc();
      EXPECT_EQ(amazon_.standing(), 0);
      EXPECT_THAT(amazon_.groups, IsEmpty());
      // A request that nobody answered stays in the ledger until nothing can come of it.
      fixture_.now += 1800s;
      (void)gc();
      EXPECT_THAT(open_pools(), IsEmpty());
    }
  }
  std::printf("%s: killed at %d points, %d machines left behind, none after gc\n", GetParam().name,
              points, left_by_death);
  EXPECT_GT(points, 40);
  EXPECT_GT(left_by_death, 10);
}

INSTANTIATE_TEST_SUITE_P(Faults, DeathTest,
                         ::testing::Values(Fault{.name = "plain"}, Fault{.name = "lag", .lag = 60s},
                                           Fault{.name = "lost", .lost = true},
                                           Fault{.name = "throttled", .throttled = true},
                                           Fault{.name = "broken", .broken = true}),
                         [](const auto& made) { return std::string(made.param.name); });

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
  for (const Swept& one : gc()) EXPECT_EQ(one.action, SweepAction::removed) << one.why;
  EXPECT_EQ(amazon_.standing(), 0);
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
  EXPECT_THAT(life.status.error().message, HasSubstr("4 machines cannot be had"));
  EXPECT_GT(amazon_.instances.size(), 0U);
  EXPECT_EQ(amazon_.standing(), 0);
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

}  // namespace
}  // namespace skyward::provider::aws
