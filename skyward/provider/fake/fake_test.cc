#include "skyward/provider/fake/fake.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ranges>
#include <thread>
#include <vector>

#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/docs_pages_fixture.h"
#include "skyward/provider/fake/machine_process.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/watched_ledger_fixture.h"

namespace skyward::provider::fake {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

CloudConfig standard_config() {
  CloudConfig config;
  config.types = {{.name = "fake-cpu", .on_demand = 100'000, .spot = 40'000},
                  {.name = "fake-a100",
                   .accelerator = "A100",
                   .accelerator_memory_gb = 80,
                   .on_demand = 4'000'000,
                   .spot = 1'200'000}};
  return config;
}

// A computer, and a cloud on virtual time.
class FakeTest : public ::testing::Test {
 protected:
  FakeTest() {
    std::filesystem::create_directories(home_);
    std::ofstream(home_ + "/agent") << "#!/bin/sh\n";
    std::filesystem::permissions(home_ + "/agent", std::filesystem::perms::owner_all);
    spec_.provider = {.name = "fake", .settings = {}};
    spec_.agent_path = home_ + "/agent";
    spec_.runtime.command = {home_ + "/agent"};
    spec_.accelerator = Accelerator{.name = "A100"};
    spec_.nodes = 2;
    spec_.timeout = 1h;
    fresh(standard_config());
  }
  ~FakeTest() override { std::filesystem::remove_all(home_); }

  void fresh(CloudConfig config) {
    std::filesystem::remove_all(home_ + "/state");
    std::filesystem::remove_all(home_ + "/nodes");
    cloud_ = Simulation::start(
        {.config = std::move(config), .speed = 0, .clock = [] { return Time{} + 1h; }});
  }

  ClientComputer client_computer(const std::string& computer = "here") {
    ClientComputer made = make_client_computer(cloud_, home_ + "/state/" + computer);
    // One seed, one run.
    made.world.random_hex = [this](int digits) {
      return fmt::format("{:0{}x}", ++random_ * 0x9e3779b97f4a7c15ULL, digits)
          .substr(0, static_cast<std::size_t>(digits));
    };
    made.world.open_ledger = [this, open = made.world.open_ledger](
                                 const std::string& path) -> Result<std::unique_ptr<Ledger>> {
      auto ledger = open(path);
      if (!trouble_) return fail(trouble_);
      if (!ledger) return ledger;
      return std::make_unique<WatchedLedger>(
          *std::move(ledger),
          [this](bool after) {
            if (on_write_) on_write_(after);
          },
          [this] { return trouble_; });
    };
    made.local.state_root = home_ + "/nodes";
    made.local.environment_root = home_ + "/environments";
    made.local.variable = made.world.variable;
    return made;
  }
  std::unique_ptr<Provider> provider(const std::string& computer = "here") {
    return make_fake(spec_.provider, client_computer(computer));
  }
  static Time soon() { return Time{} + 2h; }

  struct Life {
    Status status;  // of the first verb that failed
    Cluster cluster;
    std::vector<Instance> instances;
  };
  // Opens a pool, whose machines come into use.
  Life open(Provider& fake) {
    Life life;
    const auto failed = [&](const auto& result) {
      life.status = std::unexpected(result.error());
      if (!life.cluster.id.empty()) (void)fake.teardown(life.cluster, soon());
      return life;
    };
    if (Status status = fake.check(spec_); !status) return failed(status);
    const auto offers = fake.offers(spec_, soon());
    if (!offers) return failed(offers);
    const auto cluster = fake.prepare(spec_, offers->front(), soon());
    if (!cluster) return failed(cluster);
    life.cluster = *cluster;
    const auto instances = fake.provision(*cluster, spec_.nodes, 0, soon());
    if (!instances) return failed(instances);
    life.instances = *instances;
    for (const Instance& one : *instances) (void)fake.bootstrap(*cluster, one);
    return life;
  }
  // A pool from its opening to its end: two machines, one of them replaced.
  Life live(Provider& fake) {
    Life life = open(fake);
    const auto failed = [&](const auto& result) {
      life.status = std::unexpected(result.error());
      (void)fake.teardown(life.cluster, soon());
      return life;
    };
    if (!life.status) return life;
    const auto ended = fake.terminate(life.cluster, {life.instances.front().id}, soon());
    if (!ended) return failed(ended);
    const auto another = fake.provision(life.cluster, 1, 0, soon());
    if (!another) return failed(another);
    std::vector<std::string> ids = {another->front().id};
    for (const Instance& one : life.instances | std::views::drop(1)) ids.push_back(one.id);
    if (Status status = fake.terminate(life.cluster, ids, soon()); !status) return failed(status);
    if (Status status = fake.teardown(life.cluster, soon()); !status) return failed(status);
    return life;
  }

  std::vector<Swept> gc(const std::string& computer = "here", SweepOptions options = {}) {
    std::vector<Swept> told;
    const Status status = sweep(
        client_computer(computer), options, [&](const Swept& swept) { told.push_back(swept); },
        soon());
    EXPECT_TRUE(status) << status.error().message;
    return told;
  }
  std::vector<std::string> resources() {
    return cloud_->ask([](Cloud& cloud, Time) { return cloud.resources(); });
  }
  std::vector<std::string> violations() {
    return cloud_->ask([](Cloud& cloud, Time) { return cloud.violations(); });
  }
  std::vector<LedgerPool> open_pools() {
    auto ledger = open_ledger(client_computer().world);
    EXPECT_TRUE(ledger);
    return *(*ledger)->pools(true);
  }

  // In memory if possible: hundreds of ledgers are written through.
  const std::string home_ = fmt::format(
      "{}/skyward-fake-{}",
      io::is_writable_directory("/dev/shm") ? "/dev/shm" : ::testing::TempDir(), io::random_hex(8));
  PoolSpec spec_;
  std::shared_ptr<Simulation> cloud_;
  std::function<void(bool after)> on_write_;
  Status trouble_;  // of the ledger
  std::uint64_t random_ = 0;
};

TEST_F(FakeTest, APoolIsInUseThoughItsFolderWasDeleted) {
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  const World world = client_computer().world;
  std::filesystem::remove_all(pool_directory(world, life.cluster.id));
  EXPECT_TRUE(fake->tend(life.cluster, soon()));
  EXPECT_TRUE(is_open_here(world, life.cluster.id));
  EXPECT_TRUE(fake->teardown(life.cluster, soon()));
}

TEST_F(FakeTest, AForkedChildEndsNothingOfItsParentsCloud) {
  const std::string directory = home_ + "/cloud";
  std::filesystem::create_directory(directory);
  auto cloud = Simulation::start({.config = standard_config(), .directory = directory});
  // Else the child waits for ever for its parent's thread, or removes the directory.
  EXPECT_EXIT(
      {
        cloud.reset();
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(std::filesystem::exists(directory));
  cloud.reset();
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(FakeTest, APoolLivesAndLeavesNothing) {
  const auto fake = provider();
  const Life life = live(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_EQ(life.instances.front().instance_type, "fake-a100");
  EXPECT_EQ(life.instances.front().price_spot, 1.2);
  EXPECT_THAT(resources(), IsEmpty());
  EXPECT_THAT(violations(), IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(FakeTest, EachMachineIsTheProcessOfItsOwnNode) {
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_THAT(life.instances, SizeIs(2));
  for (int node = 0; node < 2; ++node) {
    const Connection way = fake->connection(life.cluster, life.instances[std::size_t(node)]);
    EXPECT_THAT(way.directory, EndsWith(fmt::format("-{}", node)));
  }
  EXPECT_TRUE(fake->teardown(life.cluster, soon()));
}

TEST_F(FakeTest, ChargesAreTheBill) {
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  cloud_->advance(40min);
  cloud_->ask([&](Cloud& cloud, Time now) {
    cloud.set_hourly(now, "fake-a100", true, 2'000'000);
    EXPECT_TRUE(cloud.preempt(now, life.instances.front().id, 2min));
  });
  cloud_->advance(10min);
  const auto ids = std::vector{life.instances.front().id, life.instances.back().id};
  EXPECT_THAT(*fake->charges(life.cluster, ids, soon()), SizeIs(2));  // of the one that has ended
  ASSERT_TRUE(fake->terminate(life.cluster, ids, soon()));
  const auto charges = fake->charges(life.cluster, ids, soon());
  ASSERT_TRUE(charges);
  ASSERT_THAT(*charges, SizeIs(4));  // two price steps each
  double dollars = 0;
  for (std::size_t i = 0; i < charges->size(); ++i) {
    const Charge& step = (*charges)[i];
    const bool last = i + 1 == charges->size() || (*charges)[i + 1].instance != step.instance;
    const Duration until = last ? *step.ended : (*charges)[i + 1].since;
    dollars += *step.hourly * seconds(step.since - until) / 3600;
  }
  const auto bill = cloud_->ask([](Cloud& cloud, Time now) { return cloud.bill(now); });
  EXPECT_NEAR(dollars, to_dollars(bill), 0.002);
  EXPECT_TRUE(fake->teardown(life.cluster, soon()));
}

// The ledger has the price of the offer, and the time at which this computer saw the end.
TEST_F(FakeTest, ChargesOfFailedLaunchesAreTheBill) {
  CloudConfig config = standard_config();
  config.failed_boots = 1;
  fresh(config);
  const auto fake = provider();
  const auto offers = fake->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  const auto cluster = fake->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  cloud_->ask([&](Cloud& cloud, Time now) { cloud.set_hourly(now, "fake-a100", true, 2'000'000); });
  EXPECT_FALSE(fake->provision(*cluster, 2, 0, soon()));
  cloud_->advance(1h);
  const auto charges = fake->charges(*cluster, {}, soon());
  ASSERT_TRUE(charges) << charges.error().message;
  CostBook book(cloud_->ask([](Cloud& cloud, Time) { return cloud.config().billing; }));
  const Time now = cloud_->present();
  book.on_charges(*charges, now);
  const MicroDollars bill = cloud_->ask([](Cloud& cloud, Time there) { return cloud.bill(there); });
  EXPECT_GT(bill, 0);
  EXPECT_EQ(book.now(now).total, bill);
  EXPECT_TRUE(fake->teardown(*cluster, soon()));
}

TEST_F(FakeTest, CapacityIsSoughtInEveryZone) {
  CloudConfig config = standard_config();
  config.capacity = {{"fake-a100/zone-a", 1}, {"fake-a100/zone-b", 2}};
  fresh(config);
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  spec_.nodes = 3;
  const auto more = provider();
  const Life none = open(*more);
  ASSERT_FALSE(none.status);
  EXPECT_EQ(none.status.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(none.status.error().message,
              HasSubstr("no capacity for 3 spot machines: fake-a100 in "
                        "zone-a as spot: NoCapacity"));
  EXPECT_TRUE(fake->teardown(life.cluster, soon()));
  EXPECT_THAT(resources(), IsEmpty());
  EXPECT_THAT(violations(), IsEmpty());
}

TEST_F(FakeTest, SpotMachinesThatAreMissingAreMadeUpFor) {
  CloudConfig config = standard_config();
  config.spot_capacity = {{"fake-a100", 1}};
  fresh(config);
  spec_.spot = Spot::Percent(0.5);
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_EQ(std::ranges::count_if(life.instances, &Instance::spot), 1);
  EXPECT_TRUE(fake->teardown(life.cluster, soon()));
  EXPECT_THAT(resources(), IsEmpty());
}

TEST_F(FakeTest, APoolLaunchesNothingWhenItsTimeIsOver) {
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status);
  cloud_->advance(2h);
  EXPECT_THAT(fake->provision(life.cluster, 1, 0, soon()).error().message,
              HasSubstr("this pool's timeout=3600 has expired"));
  EXPECT_TRUE(fake->teardown(life.cluster, soon()));
  EXPECT_THAT(resources(), IsEmpty());
  EXPECT_THAT(violations(), IsEmpty());
}

TEST_F(FakeTest, TheQuotaIsTold) {
  CloudConfig config = standard_config();
  config.quota = 1;
  fresh(config);
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_FALSE(life.status);
  EXPECT_THAT(life.status.error().message, HasSubstr("QuotaExceeded"));
  EXPECT_THAT(resources(), IsEmpty());
}

TEST_F(FakeTest, MachinesThatDoNotStartAreGivenBack) {
  CloudConfig config = standard_config();
  config.failed_boots = 1;
  fresh(config);
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_FALSE(life.status);
  EXPECT_THAT(life.status.error().message, HasSubstr("did not start"));
  EXPECT_THAT(resources(), IsEmpty());
  EXPECT_THAT(violations(), IsEmpty());
}

TEST_F(FakeTest, ALedgerThatFailsKeepsNothingRunning) {
  CloudConfig config = standard_config();
  config.listing_lag = 60s;
  fresh(config);
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  trouble_ = fail(ErrorKind::unavailable, "the disk is full");
  EXPECT_TRUE(fake->terminate(life.cluster, {life.instances.front().id}, soon()));
  const Status closed = fake->teardown(life.cluster, soon());
  EXPECT_THAT(closed.error().message,
              HasSubstr("the ledger could not be updated: the disk is full"));
  EXPECT_THAT(resources(), IsEmpty());
  trouble_ = {};
  EXPECT_THAT(open_pools(), SizeIs(1));
  (void)gc();
  EXPECT_THAT(open_pools(), IsEmpty());
  EXPECT_THAT(violations(), IsEmpty());
}

TEST_F(FakeTest, MachinesThatATeardownLeavesAreNamed) {
  const auto fake = provider();
  const Life life = open(*fake);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_FALSE(fake->teardown(life.cluster, Time{})) << "there was no time to see them end";
  EXPECT_THAT(fake->standing(life.cluster),
              UnorderedElementsAre(life.instances[0].id, life.instances[1].id));
  EXPECT_TRUE(fake->teardown(life.cluster, soon()));
  EXPECT_THAT(fake->standing(life.cluster), IsEmpty());
}

TEST_F(FakeTest, ACloudThatIsGoneIsNamed) {
  const auto missing = make_fake(ProviderSpec{.name = "fake", .settings = {{"cloud", "fake-0"}}});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().hint, HasSubstr("keep it at least as long as its pools"));
}

TEST_F(FakeTest, AMachineWhosePowerIsCutDoesNotStartAgain) {
  const std::string directory = home_ + "/machine";
  std::filesystem::create_directories(directory);
  const MachineProcess machine(directory);
  io::SpawnOptions options{.command = machine.command({"/bin/sleep", "60"})};
  options.directory = directory;
  const auto run = [&] { return io::run_command(options, 30s); };
  machine.power_off();  // nobody is there yet
  EXPECT_EQ(run()->status.code, 1);
  std::filesystem::remove(directory + "/.skyward-off");
  std::jthread cut([&] {
    while (!std::filesystem::exists(directory + "/.skyward-pid")) std::this_thread::yield();
    machine.power_off();
  });
  std::filesystem::remove(directory + "/.skyward-pid");
  const auto ended = run();
  EXPECT_TRUE(ended->status.signal == 9 || ended->status.code == 1) << ended->status.code;
}

TEST_F(FakeTest, ANumberThatIsAnotherProcessesHitsNobody) {
  const std::string directory = home_ + "/machine";
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/.skyward-pid") << io::process_id() << "\n";
  MachineProcess(directory).power_off();
  EXPECT_TRUE(std::filesystem::exists(directory + "/.skyward-off"));  // and this still runs
}

// ---- The driver dies

struct Weather {
  const char* name;
  const char* told;
  CloudConfig config;
};

class DeathTest : public FakeTest, public ::testing::WithParamInterface<Weather> {
 protected:
  // The driver's steps: before and after each of its requests and writes.
  void watch(int die_at) {
    steps_ = 0;
    const auto step = [this, die_at] {
      if (++steps_ == die_at) throw DriverDied();
    };
    on_write_ = [step](bool) { step(); };
    cloud_->ask(
        [&](Cloud& cloud, Time) { cloud.watch = [step](std::string_view, bool) { step(); }; });
  }
  void watch_no_more() {
    on_write_ = {};
    cloud_->ask([](Cloud& cloud, Time) { cloud.watch = {}; });
  }
  int steps_ = 0;
};

TEST_P(DeathTest, AtEveryStepLeavesNothing) {
  const Weather& weather = GetParam();
  spec_.nodes = 1;  // of the pools that go on
  int points = 0;
  std::size_t at_death = 0, after_timers = 0, after_gc = 0;
  for (int at = 1;; ++at) {
    SCOPED_TRACE(fmt::format("killed at step {}", at));
    random_ = 0;
    fresh(weather.config);
    // Two pools at work, which nobody may touch: one here, one of another computer.
    spec_.nodes = 1;
    const auto mine = provider();
    const auto theirs = provider("elsewhere");
    const Life at_work = open(*mine);
    const Life elsewhere = open(*theirs);
    ASSERT_TRUE(at_work.status && elsewhere.status);
    cloud_->advance(2min);  // until they are listed
    const std::vector<std::string> before = resources();
    ASSERT_THAT(before, SizeIs(6));

    spec_.nodes = 2;
    watch(at);
    bool died = false;
    try {
      const auto fake = provider();
      const Life life = live(*fake);
      EXPECT_TRUE(life.status) << life.status.error().message;
    } catch (const DriverDied&) {
      died = true;
    }
    watch_no_more();
    at_death += resources().size() - before.size();
    cloud_->advance(20min);  // the dead man's limit
    after_timers += resources().size() - before.size();
    (void)gc();
    after_gc += resources().size() - before.size();
    ASSERT_EQ(resources(), before);
    ASSERT_THAT(open_pools(), SizeIs(1));  // the one at work
    ASSERT_THAT(violations(), IsEmpty());
    ASSERT_TRUE(mine->teardown(at_work.cluster, soon()));
    ASSERT_TRUE(theirs->teardown(elsewhere.cluster, soon()));
    ASSERT_THAT(resources(), IsEmpty());
    if (!died) break;
    ++points;
  }
  const std::string row = fmt::format("| {} | {} | {} | {} | {} |", weather.told, points, at_death,
                                      after_timers, after_gc);
  std::printf("%s\n", row.c_str());
  expect_row_on_page("leaks.md", "## A cloud with every fault", row);
  EXPECT_GT(points, 60);
  EXPECT_GT(at_death, 100U);
}

CloudConfig with(const std::function<void(CloudConfig&)>& change) {
  CloudConfig config = standard_config();
  change(config);
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    Weathers, DeathTest,
    ::testing::Values(
        Weather{"calm", "as it should be", standard_config()},
        Weather{"lag", "listings lag by 60 s", with([](CloudConfig& d) { d.listing_lag = 60s; })},
        Weather{"lost", "a third of the replies is lost",
                with([](CloudConfig& d) { d.lost_replies = 0.33; })},
        Weather{"broken", "a third of the requests fails with 500",
                with([](CloudConfig& d) { d.server_errors = 0.33; })},
        Weather{"throttled", "one request every two seconds", with([](CloudConfig& d) {
                  d.requests_per_second = 0.5;
                  d.burst = 2;
                })},
        Weather{"stray", "disks outlive their machines",
                with([](CloudConfig& d) { d.leaked_disks = 1; })},
        Weather{"all", "all of it at once", with([](CloudConfig& d) {
                  d.listing_lag = 60s;
                  d.lost_replies = 0.15;
                  d.server_errors = 0.15;
                  d.requests_per_second = 1;
                  d.burst = 5;
                  d.leaked_disks = 0.5;
                })}),
    [](const auto& made) { return std::string(made.param.name); });

TEST_F(FakeTest, AnotherComputerWaitsForThePoolsOwnTime) {
  Life life;
  {
    const auto fake = provider();
    life = open(*fake);
    ASSERT_TRUE(life.status);
  }
  for (const Swept& one : gc("elsewhere")) EXPECT_EQ(one.action, SweepAction::kept) << one.why;
  EXPECT_THAT(resources(), SizeIs(4));
  cloud_->advance(3h);  // the machines have ended themselves
  EXPECT_THAT(resources(), SizeIs(2));
  for (const Swept& one : gc("elsewhere")) EXPECT_EQ(one.action, SweepAction::removed) << one.why;
  EXPECT_THAT(resources(), IsEmpty());
}

TEST_F(FakeTest, WhatStandsOfAPoolThatIsOverHereIsNotAnotherComputers) {
  Life life;
  {
    const auto fake = provider();
    life = open(*fake);
    ASSERT_TRUE(life.status);
  }
  {
    const ClientComputer here = client_computer();
    ASSERT_TRUE((*open_ledger(here.world))->close_pool(life.cluster.id, here.world.wall_s()));
  }
  for (const Swept& one : gc()) EXPECT_EQ(one.action, SweepAction::removed) << one.why;
  EXPECT_THAT(resources(), IsEmpty());
}

// Each removes what programs that are gone have left, and must let the others alone.
TEST(FakeClouds, StartAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kClouds = 25;
  std::atomic<int> started = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int cloud = 0; cloud < kClouds; ++cloud) {
        const auto made = start_simulation(standard_config(), 600);
        EXPECT_TRUE(made) << made.error().message;
        if (made && std::filesystem::exists((*made)->directory() + "/lock")) ++started;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(started, kThreads * kClouds);
}

TEST_F(FakeTest, GcTellsWhatItWouldDo) {
  {
    const auto fake = provider();
    ASSERT_TRUE(open(*fake).status);
  }
  for (const Swept& one : gc("here", {.dry_run = true})) {
    EXPECT_EQ(one.action, SweepAction::would_remove) << one.why;
  }
  EXPECT_THAT(resources(), SizeIs(4));
}

}  // namespace
}  // namespace skyward::provider::fake
