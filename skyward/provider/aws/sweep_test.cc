#include "skyward/provider/aws/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "skyward/provider/aws/aws_computer_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A pool whose driver was killed, with two machines in use.
class LeftBehind : public ::testing::Test, public AwsComputer {
 protected:
  void SetUp() override {
    const auto aws = provider();
    const auto offers = aws->offers(spec_, soon());
    cluster_ = *aws->prepare(spec_, offers->front(), soon());
    ASSERT_TRUE(aws->provision(cluster_, 2, 0, soon()));
    amazon_.claim_all();
    amazon_.actions.clear();
  }
  std::vector<LedgerEntry> machines() {
    std::vector<LedgerEntry> out = *(*open_ledger(fixture_.world))->entries(cluster_.id, false);
    std::erase_if(out, [](const LedgerEntry& entry) { return entry.kind != "instance"; });
    return out;
  }
  // As if the ledger said so.
  void say(const std::string& assignment) {
    io::SpawnOptions options;
    options.command = {"python3", "-c",
                       "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); "
                       "db.execute('UPDATE pool SET ' + sys.argv[2]); db.commit()",
                       home_ + "/state/skyward/ledger.db", assignment};
    const auto ran = io::run_command(options, 60s);
    ASSERT_TRUE(ran && ran->status.code == 0) << (ran ? ran->err : ran.error().message);
  }
  void deny(const std::string& region) {
    amazon_.refuse = [region](const std::string& action, const Ec2Double::Form& form) {
      const bool look = action.starts_with("Describe") && action != "DescribeRegions";
      return look && form.at("region") == region
                 ? std::pair(403, std::string("UnauthorizedOperation"))
                 : std::pair(0, std::string());
    };
  }
  Status sweep_all(std::vector<Swept>& told, const SweepOptions& options = {}) {
    return sweep(
        fixture_.world, options, [&](const Swept& swept) { told.push_back(swept); },
        fixture_.now + 600s);
  }

  Cluster cluster_;
};

TEST_F(LeftBehind, MachinesThatEndedThemselvesCostUntilThen) {
  const std::int64_t opened_s = fixture_.world.wall_s();
  amazon_.instances.front().ended = fixture_.now + 60s;
  amazon_.instances.front().reason = "User initiated";
  amazon_.instances.back().ended = fixture_.now + 60s;
  fixture_.now += 30min;
  (void)gc();
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
  for (const LedgerEntry& one : machines()) {
    EXPECT_EQ(one.gone_s, opened_s + 60) << "Amazon says so";
    EXPECT_FALSE(one.gone_late);
  }
}

TEST_F(LeftBehind, MachinesThatAmazonHasForgottenCostToTheirTimeAtMost) {
  const auto pools = open_pools();
  ASSERT_THAT(pools, SizeIs(1));
  EXPECT_GT(pools[0].expires_s, fixture_.world.wall_s());
  amazon_.instances.clear();
  fixture_.now += 720h;
  (void)gc();
  for (const LedgerEntry& one : machines()) {
    EXPECT_EQ(one.gone_s, pools[0].expires_s + 120);
    EXPECT_TRUE(one.gone_late);
  }
}

TEST_F(LeftBehind, OnlyItsOwnRegionIsAskedForAKnownPool) {
  amazon_.regions = {"ap-south-1", "eu-west-1", "us-east-1"};
  deny("ap-south-1");
  std::vector<Swept> told;
  EXPECT_TRUE(sweep_all(told, {.pool = cluster_.id}));
  EXPECT_EQ(amazon_.standing(), 0);
  EXPECT_THAT(amazon_.actions, Not(Contains("DescribeRegions")));
}

TEST_F(LeftBehind, ARegionThatMayNotBeLookedInSpoilsNothing) {
  amazon_.regions = {"ap-south-1", "eu-west-1", "us-east-1"};
  deny("ap-south-1");
  std::vector<Swept> told;
  EXPECT_TRUE(sweep_all(told));
  EXPECT_EQ(amazon_.standing(), 0);
  std::erase_if(told, [](const Swept& one) { return one.action == at_once(one); });
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].action, SweepAction::skipped);
  EXPECT_EQ(told[0].resource.id, "ap-south-1");
  EXPECT_THAT(told[0].why, HasSubstr("UnauthorizedOperation"));
  EXPECT_FALSE(sweep_all(told, {.regions = {"ap-south-1"}})) << "it was asked for";
}

TEST_F(LeftBehind, ARegionOfTheLedgerMustBeLookedIn) {
  deny("eu-west-1");
  std::vector<Swept> told;
  const Status status = sweep_all(told);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::denied);
  EXPECT_EQ(amazon_.standing(), 2);
}

TEST_F(LeftBehind, InAnotherAccountIsTold) {
  say(R"(settings='{"account":"9999","host":"x","profile":"work"}')");
  amazon_.instances.clear();
  amazon_.groups.clear();
  for (const bool asked : {false, true}) {
    SweepOptions options;
    if (asked) options.pool = cluster_.id;
    const std::vector<Swept> told = gc(options);
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].action, SweepAction::skipped);
    EXPECT_EQ(told[0].resource.id, cluster_.id);
    EXPECT_THAT(told[0].why, HasSubstr("account 9999"));
    EXPECT_THAT(told[0].why, HasSubstr("AWS_PROFILE=work skyward gc"));
  }
}

TEST_F(LeftBehind, OnThisComputerUnderAnotherName) {
  say("settings=json_set(settings, '$.host', 'old-name')");
  for (const Swept& one : gc()) EXPECT_EQ(one.action, at_once(one)) << one.why;
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(LeftBehind, ByAnotherComputerThatSharesTheLedger) {
  say("settings=json_set(settings, '$.host', 'other', '$.boot', 'its own')");
  const std::vector<Swept> told = gc();
  EXPECT_THAT(told, SizeIs(4));
  for (const Swept& one : told) EXPECT_NE(one.action, SweepAction::removed) << one.why;
  EXPECT_EQ(amazon_.standing(), 2) << "it may be at work there";
  fixture_.now += 2h;
  for (const Swept& one : gc()) EXPECT_EQ(one.action, at_once(one)) << one.why;
  let_go();
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(LeftBehind, IsFoundByItsMarksWithoutALedger) {
  std::ofstream(home_ + "/state/skyward/ledger.db") << std::string(9000, 'x');
  fixture_.now += 2h;
  std::vector<Swept> told;
  const Status status = sweep_all(told);
  ASSERT_FALSE(status) << "and it is said that the ledger is gone";
  EXPECT_THAT(status.error().message, HasSubstr("ledger.db"));
  for (const Swept& one : told) EXPECT_EQ(one.action, at_once(one)) << one.why;
  EXPECT_EQ(amazon_.standing(), 0);
  fixture_.now += 6min;
  (void)sweep_all(told);
  EXPECT_THAT(amazon_.groups, IsEmpty());
}

TEST_F(LeftBehind, IsRemovedAtOnceWithALedgerThatCannotBeWritten) {
  const auto open = fixture_.world.open_ledger;
  fixture_.world.open_ledger = [](const std::string&) -> Result<std::unique_ptr<Ledger>> {
    return fail(ErrorKind::unavailable, "ledger.db: database or disk is full");
  };
  std::vector<Swept> told;
  const Status status = sweep_all(told);
  ASSERT_FALSE(status) << "the ledger could not record that they are gone";
  EXPECT_THAT(status.error().message, HasSubstr("disk is full"));
  EXPECT_THAT(told, Contains(Field(&Swept::action, SweepAction::removed)));
  for (const Swept& one : told) EXPECT_EQ(one.action, at_once(one)) << one.why;
  EXPECT_EQ(amazon_.standing(), 0);
  fixture_.world.open_ledger = open;
  fixture_.now += 6min;
  (void)gc();
  EXPECT_THAT(open_pools(), IsEmpty());
}

}  // namespace
}  // namespace skyward::provider::aws
