#include "skyward/provider/renting/reaping.h"
#include "skyward/provider/open_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "skyward/provider/digital_ocean/digital_ocean.h"
#include "skyward/provider/digital_ocean/digital_ocean_computer_fixture.h"
#include "skyward/provider/marks.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// ---- The decision

TEST(NextReaperStep, IsTakenFromTheLockTheLedgerAndTheClock) {
  const ReaperOrder order{.pool = "cloud-1a2b3c4d", .expires_s = 1000};
  const auto step = [&](bool runs, bool closed, std::int64_t now_s) {
    return next_step(order, {.driver_runs = runs, .is_closed = closed, .now_s = now_s});
  };
  EXPECT_EQ(step(true, false, 10), ReaperStep::wait);
  EXPECT_EQ(step(false, false, 10), ReaperStep::terminate);
  EXPECT_EQ(step(false, true, 10), ReaperStep::finish);
  EXPECT_EQ(step(true, true, 10), ReaperStep::finish);
  EXPECT_EQ(step(true, false, 1299), ReaperStep::wait) << "a pool closes itself first";
  EXPECT_EQ(step(true, false, 1300), ReaperStep::terminate);
}

TEST(NextReaperStep, IsTheLastWhenAPoolThatNoLedgerKnowsHasLongBeenClear) {
  const ReaperOrder order{.pool = "cloud-1a2b3c4d", .expires_s = 1000};
  EXPECT_EQ(next_step(order, {.is_lost_and_clear = true, .now_s = 10}), ReaperStep::finish);
}

TEST(ReaperOrderText, ComesBackAsItWas) {
  const ReaperOrder order{.provider = {.name = "cloud", .settings = {{"token", "a\"b\n"}}},
                          .pool = "cloud-1a2b3c4d",
                          .region = "here",
                          .expires_s = 1'700'000'000};
  EXPECT_EQ(read_reaper_order(to_text(order)).value(), order);
  for (const char* text :
       {"", "{}", "[]", "null", R"({"provider": "x", "pool": "../..", "expires": 1})",
        R"({"provider": "x", "pool": "a-1", "expires": 0})"}) {
    EXPECT_FALSE(read_reaper_order(text)) << text;
  }
}

TEST(ReaperDeadline, IsADayAfterTheEndOfThePoolsTime) {
  const WorldFixture here;
  const ReaperOrder order{.pool = "cloud-1a2b3c4d", .expires_s = here.wall_s + 72 * 3600};
  EXPECT_EQ(reaper_deadline(here.world, order), here.now + 96h);
}

// ---- Its work, at a cloud whose machines cannot end their cost

const std::set<std::string> kWithoutDeletionOfDroplets = {
    "account:read", "droplet:read", "ssh_key:read",  "ssh_key:delete",
    "tag:read",     "tag:delete",   "firewall:read", "firewall:delete"};

class ReaperTest : public ::testing::Test, public digital_ocean::DigitalOceanComputer {
 protected:
  ~ReaperTest() override { EXPECT_EQ(violations(), ""); }

  // What the pool has told its reaper.
  ReaperOrder order() const { return read_reaper_order(fixture_.started.back().input).value(); }
  Cluster cluster() const { return {.id = order().pool, .region = order().region}; }
  static Cluster cluster_of(const LedgerPool& pool) {
    return {.id = pool.id, .region = pool.region};
  }
  Status reap_now(Duration patience = 2h) {
    const auto cloud = make_digital_ocean_cloud(order().provider, fixture_.world);
    return reap(fixture_.world, **cloud, order(), fixture_.now + patience);
  }
};

TEST_F(ReaperTest, IsStartedBeforeAnythingIsRequested) {
  fixture_.world.run_with_input = [this](const io::SpawnOptions&, Duration,
                                         std::string_view) -> Result<io::CommandResult> {
    EXPECT_THAT(cloud_->leftovers(), IsEmpty());
    EXPECT_THAT(open_pools(), SizeIs(1)) << "in the ledger already";
    return fail(ErrorKind::exhausted, "no more processes");
  };
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  const auto prepared = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error().message, HasSubstr("no more processes"));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
}

// A reaper ends with its computer, and nothing starts it at boot: the next pool does.
TEST_F(ReaperTest, IsStartedAgainByTheNextPool) {
  auto cloud = opened().cloud;
  const LedgerPool mine = open_pools().front();
  const auto add = [&](const char* id, std::map<std::string, std::string> changes) {
    LedgerPool other = mine;
    other.id = id;
    changes.merge(other.settings);
    other.settings = std::move(changes);
    EXPECT_TRUE(open_ledger(fixture_.world).value()->open_pool(other));
  };
  add("digital_ocean-00000001", {});
  add("digital_ocean-00000002", {{"account", "another"}});
  add("digital_ocean-00000003",
      {{"boot", "another"}, {"host", "another"}, {"computer", "another"}});
  add("digital_ocean-00000004", {});
  add("digital_ocean-00000006", {{"ledger", "1"}});  // this ledger is a copy of its own
  LedgerPool of_another_cloud = mine;
  of_another_cloud.id = "verda-00000005";
  of_another_cloud.provider = "verda";
  EXPECT_TRUE(open_ledger(fixture_.world).value()->open_pool(of_another_cloud));
  const auto held = make_pool_directory(fixture_.world, "digital_ocean-00000004");
  std::vector<std::string> told;
  const auto next = provider();
  next->set_tell([&](const std::string& line) { told.push_back(line); });
  const std::size_t before = fixture_.started.size();
  const Life life = open(*next);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_EQ(fixture_.started.size() - before, 2U) << "none for the pools that are open";
  const ReaperOrder resumed = read_reaper_order(fixture_.started[before].input).value();
  EXPECT_EQ(resumed.pool, "digital_ocean-00000001");
  EXPECT_GT(resumed.expires_s, fixture_.world.wall_s()) << "the pool's lock goes on to decide";
  EXPECT_THAT(told, UnorderedElementsAre(
                        HasSubstr("digital_ocean-00000001 was left behind"),
                        HasSubstr("digital_ocean-00000003 was opened on another and may still"),
                        HasSubstr("run 'skyward pool delete digital_ocean-00000006'")));
  EXPECT_TRUE(next->teardown(life.cluster, soon()));
  EXPECT_TRUE(cloud->teardown(cluster_of(mine), soon()));
}

TEST_F(ReaperTest, IsNotStartedBesideAnotherOne) {
  (void)opened();
  const LedgerPool left = open_pools().front();
  const auto reaper = io::FileLock::try_lock(reaper_lock(fixture_.world, left.id));
  ASSERT_TRUE(reaper);
  const std::size_t before = fixture_.started.size();
  const auto next = opened().cloud;
  EXPECT_EQ(fixture_.started.size() - before, 1U);
  EXPECT_TRUE(next->teardown(cluster(), soon()));
  EXPECT_THAT(gc(), Each(Field(&Swept::action, SweepAction::removed)));
}

// Killed for its memory, say.
TEST_F(ReaperTest, IsStartedAgainWhileItsPoolIsOpen) {
  const auto cloud = opened().cloud;
  EXPECT_EQ(cloud->capabilities().tend_interval, 30s);
  const std::string first = fixture_.started.back().input;
  const std::size_t before = fixture_.started.size();
  const auto tend = [&] { return cloud->tend(cluster(), soon()); };
  auto reaper = io::FileLock::try_lock(reaper_lock(fixture_.world, cluster().id));
  EXPECT_TRUE(tend());
  EXPECT_EQ(fixture_.started.size(), before) << "there is one";
  reaper.reset();
  EXPECT_TRUE(tend());
  ASSERT_EQ(fixture_.started.size(), before + 1);
  EXPECT_EQ(fixture_.started.back().input, first);

  std::filesystem::remove(home_ + "/skyward");
  const Status missing = tend();
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("nothing would terminate the machines"));
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
  EXPECT_TRUE(tend()) << "the pool is closed";
}

TEST_F(ReaperTest, FindsThePoolInUseAfterTheStateDirectoryWasDeleted) {
  auto cloud = opened().cloud;
  const Cluster made = cluster();
  const auto first = watch_pool(fixture_.world, made.id);
  std::filesystem::remove_all(home_ + "/state");
  EXPECT_FALSE(is_open_here(fixture_.world, made.id));
  const std::size_t before = fixture_.started.size();
  EXPECT_TRUE(cloud->tend(made, soon()));
  EXPECT_TRUE(is_open_here(fixture_.world, made.id)) << "before there is another reaper";
  EXPECT_EQ(fixture_.started.size(), before + 1) << "nobody can tell whether there is one";
  EXPECT_TRUE(first.holder()) << "for the first one";
  const auto another = cloud->provision(made, 1, 0, soon());
  EXPECT_TRUE(another) << another.error().message;
  ASSERT_THAT(open_pools(), SizeIs(1)) << "in the new ledger";
  EXPECT_TRUE(opened_here(open_pools().front(), fixture_.world));
  EXPECT_TRUE(cloud->teardown(made, soon()));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
  EXPECT_FALSE(first.holder());
}

TEST_F(ReaperTest, GetsItsSecretsOnStandardInput) {
  spec_.provider.settings["token"] = cloud_->token;
  const auto cloud = opened().cloud;
  EXPECT_THAT(fixture_.started.back().command, ElementsAre(home_ + "/skyward", "reap"));
  EXPECT_EQ(order().provider.setting("token"), cloud_->token);
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
}

// A runner of jobs would kill it with the program.
TEST_F(ReaperTest, DoesNotBelongToAJobOfAContinuousIntegration) {
  const auto cloud = opened().cloud;
  EXPECT_THAT(
      fixture_.started.back().unset,
      IsSupersetOf({"RUNNER_TRACKING_ID", "VSTS_PROCESS_LOOKUP_ID", "JENKINS_NODE_COOKIE",
                    "JENKINS_SERVER_COOKIE", "BUILD_ID", "HUDSON_COOKIE", "HUDSON_SERVER_COOKIE"}));
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
}

// Whose end would be its own.
TEST_F(ReaperTest, DoesNotBelongToTheTaskThatOpenedItsPool) {
  const auto cloud = opened().cloud;
  EXPECT_THAT(fixture_.started.back().unset,
              IsSupersetOf({"SKYWARD_NODE", "SKYWARD_WORK", "SKYWARD_LOCAL_NODE"}));
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
}

TEST_F(ReaperTest, RemovesWhatADeadProgramLeft) {
  (void)opened();
  EXPECT_THAT(cloud_->leftovers(), Not(IsEmpty()));
  const Status done = reap_now();
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(ReaperTest, WaitsWhileTheProgramRuns) {
  auto cloud = opened().cloud;
  int looks = 0;
  const auto pause = fixture_.world.pause;
  fixture_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    if (cloud && ++looks == 30) {
      EXPECT_THAT(cloud_->leftovers(), SizeIs(5)) << "nothing was touched";
      cloud.reset();
    }
    pause(duration, stop);
  };
  EXPECT_TRUE(reap_now());
  EXPECT_GE(looks, 30);
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
}

// Thousands of pools may have been there before.
TEST_F(ReaperTest, ReadsNothingOfOtherPoolsWhileItWaits) {
  auto cloud = opened().cloud;
  const int before = ledger_watch_.listings;
  (void)reap_now(10min);
  EXPECT_EQ(ledger_watch_.listings, before);
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
}

TEST_F(ReaperTest, ExitsWhenThePoolWasClosed) {
  const auto cloud = opened().cloud;
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
  const int before = requests();
  EXPECT_TRUE(reap_now());
  EXPECT_EQ(requests(), before);
}

// It was deleted, or is another one: nothing says that the machines are gone.
TEST_F(ReaperTest, ALedgerThatDoesNotKnowThePoolSaysNothing) {
  const auto cloud = opened().cloud;
  const Cluster made = cluster();
  std::filesystem::remove(home_ + "/state/skyward/ledger.db");
  (void)reap_now(30min);
  EXPECT_THAT(cloud_->leftovers(), SizeIs(5)) << "the program runs";
  (void)cloud->teardown(made, soon());
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
}

// The machines have ended, but what the ledger knows more of may still appear.
TEST_F(ReaperTest, ALedgerThatCannotBeReadSaysNothing) {
  (void)opened();
  std::ofstream(home_ + "/state/skyward/ledger.db", std::ios::trunc) << "no ledger at all";
  const Time begun = fixture_.now;
  EXPECT_FALSE(reap_now(3h)) << "a request may still take effect";
  EXPECT_GE(fixture_.now - begun, 3h);
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
}

TEST_F(ReaperTest, OneLookMayBeWrong) {
  const auto cloud = opened().cloud;
  const std::string lock = home_ + "/state/skyward/clouds/" + order().pool + "/lock";
  std::filesystem::rename(lock, lock + ".away");
  int looks = 0;
  const auto pause = fixture_.world.pause;
  fixture_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    if (++looks == 3) std::filesystem::rename(lock + ".away", lock);
    pause(duration, stop);
  };
  (void)reap_now(10min);
  EXPECT_THAT(cloud_->leftovers(), SizeIs(5)) << "the program runs";
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
}

// Somebody has cleaned up their home: the program runs, and its lock has no name any more.
TEST_F(ReaperTest, ADeletedStateDirectoryEndsNoMachineInUse) {
  auto cloud = opened().cloud;
  const Time begun = fixture_.now;
  int looks = 0;
  const auto pause = fixture_.world.pause;
  fixture_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    ++looks;
    if (looks == 3) std::filesystem::remove_all(home_ + "/state");
    if (looks == 60) {
      EXPECT_THAT(cloud_->leftovers(), SizeIs(5)) << "the program runs";
      cloud.reset();
    }
    pause(duration, stop);
  };
  EXPECT_TRUE(reap_now(24h));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_GE(looks, 60);
  EXPECT_LE(fixture_.now - begun, 45min) << "nothing will ever say that the pool is closed";
}

TEST_F(ReaperTest, EndsNoRunningPoolBecauseAClockWasSet) {
  const auto cloud = opened().cloud;
  std::int64_t ahead_s = 0;
  fixture_.world.wall_s = [&, wall_s = fixture_.world.wall_s] { return wall_s() + ahead_s; };
  const auto pause = fixture_.world.pause;
  fixture_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    ahead_s = 24h / 1s;
    pause(duration, stop);
  };
  (void)reap_now(30min);
  EXPECT_THAT(cloud_->leftovers(), SizeIs(5)) << "the program runs";
  ahead_s = 0;
  EXPECT_TRUE(cloud->teardown(cluster(), soon()));
}

TEST_F(ReaperTest, EndsThePoolOfAProgramThatHangs) {
  const auto cloud = opened().cloud;  // it holds the lock
  EXPECT_TRUE(reap_now(3h));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_GE(fixture_.now - start_, 1h);
}

TEST_F(ReaperTest, CountsTheTimeThatThisComputerSleeps) {
  const auto cloud = opened().cloud;  // it holds the lock
  const auto pause = fixture_.world.pause;
  fixture_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    fixture_.asleep = 2h;
    pause(duration, stop);
  };
  EXPECT_TRUE(reap_now(3h));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_LT(fixture_.now - start_, 1h);
}

TEST_F(ReaperTest, TriesUntilTheCloudListens) {
  (void)opened();
  cloud_->dials.fail = 1;
  const auto pause = fixture_.world.pause;
  const Time until = fixture_.now + 40min;
  fixture_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    pause(duration, stop);
    if (fixture_.now >= until) cloud_->dials.fail = 0;
  };
  EXPECT_TRUE(reap_now());
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(ReaperTest, LeavesWhatMachinesUseWhileTheyCannotBeDeleted) {
  (void)opened();
  cloud_->tokens = {{cloud_->token, kWithoutDeletionOfDroplets}};
  EXPECT_FALSE(reap_now(30min));
  EXPECT_THAT(cloud_->leftovers(), SizeIs(5));
  cloud_->tokens = {{cloud_->token, {"*"}}};
  EXPECT_TRUE(reap_now());
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
}

TEST_F(ReaperTest, LeavesWhatMachinesUseWhenAPoolIsClosedInVain) {
  const auto cloud = opened().cloud;
  cloud_->tokens = {{cloud_->token, kWithoutDeletionOfDroplets}};
  EXPECT_FALSE(cloud->teardown(cluster(), soon()));
  EXPECT_THAT(cloud_->leftovers(), SizeIs(5));
  EXPECT_THAT(open_pools(), SizeIs(1));
  cloud_->tokens = {{cloud_->token, {"*"}}};
  EXPECT_TRUE(cloud->teardown(cluster(), soon())) << "it can be tried again";
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(ReaperTest, SaysWhyItGaveUp) {
  (void)opened();
  cloud_->tokens.clear();
  const Status done = reap_now(30min);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::denied) << done.error().message;
  const std::string pool = order().pool;
  EXPECT_EQ(why_reaper_gave_up(fixture_.world, pool), done.error().message);
  cloud_->tokens = {{cloud_->token, {"*"}}};
  EXPECT_TRUE(reap_now());
  EXPECT_EQ(why_reaper_gave_up(fixture_.world, pool), "") << "it is done after all";
}

}  // namespace
}  // namespace skyward::provider
