// What a pool asks of a cloud for its machines, and what it asks for their replacements.

#include "skyward/provider/renting/renting.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/computer_fixture.h"
#include "skyward/provider/renting/reaping.h"
#include "skyward/spec/pip_index.h"

namespace skyward::provider {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// Sells one type in the zones "z1" and "z2"; its clock and what it can do are a test's.
struct Mall {
  Capabilities facts{.spot = true, .stop_ends_billing = true};
  bool has_few_spot_types = false;
  bool by_ssh = false;
  std::string architecture;
  std::string user = "root";
  std::int64_t ahead_s = 0;  // of its clock
  std::vector<LaunchTarget> places = {{.type = "a", .zone = "z1"}, {.type = "a", .zone = "z2"}};
  std::set<std::string> full;       // zones
  bool has_spot = true;             // to sell now
  bool disk_is_full = false;        // of this computer
  std::function<void()> on_launch;  // before it answers

  std::vector<LaunchTerms> terms;  // of each launch
  std::map<std::string, MachineStatus> machines;
  int refreshes = 0;

  std::vector<std::string> standing() const {
    std::vector<std::string> out;
    for (const auto& [id, one] : machines) {
      if (one.stage != Stage::running) continue;
      out.push_back(one.zone + (one.instance.spot ? " spot" : ""));
    }
    return out;
  }
};

class MallApi final : public MachineApi {
 public:
  explicit MallApi(Mall& mall) : mall_(mall) {}
  const MachineApiFacts& facts() const override { return facts_; }
  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time) override {
    if (mall_.full.contains(batch.place.zone) || (batch.spot && !mall_.has_spot)) {
      return std::unexpected(no_room());
    }
    std::vector<std::string> ids;
    for (int i = 0; i < batch.count; ++i) {
      ids.push_back(fmt::format("m-{}", mall_.machines.size()));
      mall_.machines[ids.back()] = {.instance = {.id = ids.back(), .spot = batch.spot},
                                    .zone = batch.place.zone,
                                    .stage = Stage::running};
    }
    if (mall_.on_launch) mall_.on_launch();
    return ids;
  }
  Result<std::vector<MachineStatus>> find(std::string_view, Time) override {
    std::vector<MachineStatus> out;
    for (const auto& [id, one] : mall_.machines) out.push_back(one);
    return out;
  }
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids, Time) override {
    std::vector<MachineStatus> out;
    for (const std::string& id : ids) {
      if (mall_.machines.contains(id)) out.push_back(mall_.machines.at(id));
    }
    return out;
  }
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids, Time) override {
    std::vector<std::string> heard;
    for (const std::string& id : ids) {
      const auto found = mall_.machines.find(id);
      if (found == mall_.machines.end()) continue;
      found->second.stage = Stage::terminated;
      heard.push_back(id);
    }
    return heard;
  }

 private:
  static LaunchRefusal no_room() {
    return {.why = {.error = {ErrorKind::exhausted, "no room"}, .capacity = true},
            .code = "Full",
            .certain = true};
  }

  Mall& mall_;
  const MachineApiFacts facts_{.cloud = "the mall"};
};

class MallSite final : public RentedSite {
 public:
  MallSite(Mall& mall, const World& world) : mall_(mall), world_(world) {}
  std::string region() const override { return "here"; }
  const std::vector<LaunchTarget>& places() const override { return mall_.places; }
  std::string owner() const override { return "me"; }
  std::map<std::string, std::string> way_back() const override { return {{"account", "1234"}}; }
  std::int64_t wall_s() const override { return world_.wall_s() + mall_.ahead_s; }
  std::string user() const override { return mall_.user; }
  Status furnish(PoolBook&, const Mark&, const std::string&, Time) override { return {}; }
  Status refresh(Time) override {
    ++mall_.refreshes;
    return {};
  }
  Result<std::unique_ptr<MachineApi>> machine_api(PoolBook&, const LaunchTerms& terms,
                                                  Time) override {
    mall_.terms.push_back(terms);
    return std::make_unique<MallApi>(mall_);
  }
  SshRoute route_to(const Instance&) const override { return {}; }

 private:
  Mall& mall_;
  const World& world_;
};

class MallCloud final : public RentedCloud {
 public:
  MallCloud(Mall& mall, World world) : mall_(mall), world_(std::move(world)) {}
  std::string_view name() const override { return "mall"; }
  Capabilities capabilities() const override { return mall_.facts; }
  bool by_ssh() const override { return mall_.by_ssh; }
  bool has_few_spot_types() const override { return mall_.has_few_spot_types; }
  Result<std::vector<Offer>> offers(const PoolSpec&, Time) override {
    return std::vector<Offer>{
        {.instance_type = "a", .region = "here", .architecture = mall_.architecture}};
  }
  Result<std::vector<Offer>> catalogue(Time) override { return std::vector<Offer>(); }
  Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec&, const Offer&, Ledger&,
                                                Time) override {
    return std::make_unique<MallSite>(mall_, world_);
  }
  std::unique_ptr<MachineApi> machine_api(const Cluster&) override {
    return std::make_unique<MallApi>(mall_);
  }
  Result<std::vector<std::string>> clear(const Cluster&, PoolBook&, Time) override {
    return std::vector<std::string>();
  }

 private:
  Mall& mall_;
  const World world_;
};

class RentingTest : public ::testing::Test, public ComputerFixture {
 protected:
  std::unique_ptr<Provider> provider() override {
    return make_renting(fixture_.world, std::make_unique<MallCloud>(mall_, fixture_.world));
  }
  int standing() override { return static_cast<int>(mall_.standing().size()); }

  // The pool opens, with all of its machines.
  void open() {
    cloud_ = provider();
    life_ = ComputerFixture::open(*cloud_);
    ASSERT_TRUE(life_.status) << life_.status.error().message;
  }
  Status replace(const std::string& id) {
    if (Status ended = cloud_->terminate(life_.cluster, {id}, soon()); !ended) return ended;
    const auto made = cloud_->provision(life_.cluster, 1, 0, soon());
    return made ? Status() : fail(made);
  }
  EndTimer timer() const { return mall_.terms.back().boot.end_timer; }

  static constexpr std::int64_t kLifetime_s = 75 * 60;  // the pool's hour, and what it may add
  Mall mall_;
  std::unique_ptr<Provider> cloud_;
  Life life_;
};

// ---- The terms of a launch

TEST_F(RentingTest, NoMachineEndsItselfForASilenceOfLessThanAMinute) {
  for (const auto& [lease, told] : {std::pair<Duration, Duration>{10s, 60s}, {10min, 10min}}) {
    spec_.lease = lease;
    open();
    EXPECT_EQ(timer().lease, told);
  }
}

TEST_F(RentingTest, TheHighestCostOfThePoolIsSharedByItsNodes) {
  spec_.nodes = 3;
  open();
  EXPECT_EQ(mall_.terms.back().most_hourly, std::nullopt);
  spec_.max_hourly_cost = 9;
  open();
  EXPECT_EQ(mall_.terms.back().most_hourly, 3.0);
  ASSERT_TRUE(replace(life_.instances[0].id));
  EXPECT_EQ(mall_.terms.back().most_hourly, 3.0) << "of three, not of the one that is launched";
}

TEST_F(RentingTest, MachinesEndByTheCloudsClock) {
  mall_.ahead_s = 1000;
  const std::int64_t expires_s = fixture_.world.wall_s() + 1000 + kLifetime_s;
  open();
  EXPECT_EQ(timer().expires_s, expires_s);
  EXPECT_EQ(timer().lifetime, std::chrono::seconds(kLifetime_s));
  fixture_.now += 55min;
  ASSERT_TRUE(replace(life_.instances[0].id));
  EXPECT_EQ(timer().expires_s, expires_s);
  EXPECT_LE(timer().lifetime, 20min) << "what is left of it";
  EXPECT_GT(timer().lifetime, 19min);
}

TEST_F(RentingTest, AMachineThatNobodyClaimsEndsItselfWhereThatEndsItsCost) {
  open();
  EXPECT_EQ(timer().unclaimed, kUnclaimed);
  mall_.facts.provision_timeout = 20min;
  open();
  EXPECT_EQ(timer().unclaimed, 25min) << "it may have to wait for its peers";
  mall_.facts.stop_ends_billing = false;
  open();
  EXPECT_EQ(timer().unclaimed, timer().lifetime);
}

TEST_F(RentingTest, TheReaperGoesByThisComputersClock) {
  mall_.facts.stop_ends_billing = false;
  mall_.ahead_s = 1000;
  open();
  ASSERT_THAT(fixture_.started, SizeIs(1));
  const ReaperOrder order = read_reaper_order(fixture_.started.back().input).value();
  EXPECT_EQ(order.expires_s, fixture_.world.wall_s() + kLifetime_s);
}

TEST_F(RentingTest, AnAgentEndsItsMachineAsRoot) {
  open();
  EXPECT_THAT(cloud_->bootstrap(life_.cluster, life_.instances[0]).end_command,
              ElementsAre(kEndProgram));
  EXPECT_TRUE(mall_.terms.back().boot.root_login);
  mall_.user = "ubuntu";
  open();
  EXPECT_THAT(cloud_->bootstrap(life_.cluster, life_.instances[0]).end_command,
              ElementsAre("sudo", "-n", kEndProgram));
  EXPECT_FALSE(mall_.terms.back().boot.root_login);
  mall_.facts.stop_ends_billing = false;
  open();
  EXPECT_THAT(cloud_->bootstrap(life_.cluster, life_.instances[0]).end_command, IsEmpty())
      << "it would cost as before";
}

// It is in the network of this computer, and its address may have a password.
TEST_F(RentingTest, AMachineGetsNoProxyButThePoolsOwn) {
  mall_.by_ssh = true;
  fixture_.variables["HTTPS_PROXY"] = "http://me:secret@proxy.example:3128";
  fixture_.variables["no_proxy"] = "example.com";
  fixture_.variables["UV_INDEX_URL"] = "https://mirror.example/simple";
  const auto variables = [&] {
    open();
    return cloud_->bootstrap(life_.cluster, life_.instances[0]).environment;
  };
  EXPECT_THAT(variables(), ElementsAre(Pair("UV_INDEX_URL", "https://mirror.example/simple")));
  spec_.image.env["HTTPS_PROXY"] = "http://near.example:3128";
  EXPECT_THAT(variables(), ElementsAre(Pair("HTTPS_PROXY", "http://near.example:3128"),
                                       Pair("UV_INDEX_URL", "https://mirror.example/simple")));
}

TEST_F(RentingTest, ThePackagesOfAnImageThatTheUserNamedAreVisible) {
  mall_.by_ssh = true;
  spec_.runtime.python = "python3";
  const auto script = [&] {
    open();
    return cloud_->bootstrap(life_.cluster, life_.instances[0]).script;
  };
  EXPECT_THAT(script(), HasSubstr("\nvisible=\n"));
  spec_.provider.name = "aws";
  spec_.provider.settings["ami"] = "ami-1";
  EXPECT_THAT(script(), HasSubstr("\nvisible=yes\n"));
}

// Which it may have by the type that the user named.
TEST_F(RentingTest, UvIsForTheArchitectureOfTheMachine) {
  mall_.by_ssh = true;
  spec_.runtime.python = home_ + "/python";
  spec_.runtime.uv = home_ + "/agent";
  std::ofstream(spec_.runtime.python) << "#!/bin/sh\necho '" << home_ << "/skyward'\n";
  std::filesystem::permissions(spec_.runtime.python, std::filesystem::perms::owner_all);
  const auto uv = [&] {
    open();
    return cloud_->connection(life_.cluster, life_.instances[0]).uploads.at(0).path;
  };
  EXPECT_EQ(uv(), home_ + "/agent");
  mall_.architecture = own_architecture() == "arm64" ? "x86_64" : "arm64";
  spec_.other_agents = {{mall_.architecture, home_ + "/agent"}};
  EXPECT_EQ(uv(), home_ + "/skyward");
}

TEST_F(RentingTest, NothingIsRentedThatNoAgentFits) {
  mall_.architecture = own_architecture() == "arm64" ? "x86_64" : "arm64";
  spec_.other_agents.clear();
  const Error refused = refusal_of_opening();
  EXPECT_EQ(refused.kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.message, HasSubstr("has no agent for " + mall_.architecture + " machines"));
  EXPECT_THAT(refused.hint, Not(HasSubstr("wheel"))) << "it is a C++ program";
  spec_.runtime.python = "python3";
  EXPECT_THAT(refusal_of_opening().hint, HasSubstr("install skyward from a wheel"));
  spec_.runtime.python.clear();
  EXPECT_THAT(mall_.terms, IsEmpty());
  spec_.other_agents = {{mall_.architecture, home_ + "/agent"}};
  open();
  EXPECT_THAT(mall_.terms, SizeIs(1));
}

TEST_F(RentingTest, StrangersGetTheTasksVariablesButNoPasswordOfAnIndex) {
  mall_.by_ssh = true;
  mall_.facts.strangers = true;
  spec_.image.pip = {"six"};
  spec_.image.env = {{"HF_TOKEN", "secret"}, {"DATABASE", "postgres://me:secret@db.example/"}};
  open();
  EXPECT_THAT(cloud_->bootstrap(life_.cluster, life_.instances[0]).environment,
              Contains(Pair(std::string(kImageVariable) + "HF_TOKEN", "secret")));
  spec_.image.env["UV_INDEX_LAB_PASSWORD"] = "secret";
  cloud_ = provider();
  const Status refused = ComputerFixture::open(*cloud_).status;
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::denied);
}

TEST_F(RentingTest, KeysForVolumesThatExpireAreToldOfOnce) {
  mall_.by_ssh = true;
  spec_.volumes = {{.mount_path = "/data", .bucket = "models"}};
  const auto told = [&] {
    std::vector<std::string> lines;
    const auto cloud = provider();
    cloud->set_tell([&](const std::string& line) { lines.push_back(line); });
    for (int tries = 0; tries < 2; ++tries) {
      const auto cluster = cloud->prepare(spec_, {.instance_type = "a", .region = "here"}, soon());
      EXPECT_TRUE(cluster) << cluster.error().message;
      EXPECT_TRUE(cloud->teardown(*cluster, soon()));
    }
    return lines;
  };
  fixture_.variables["AWS_ACCESS_KEY_ID"] = "id";
  fixture_.variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  EXPECT_THAT(told(), IsEmpty());
  fixture_.variables["AWS_SESSION_TOKEN"] = "token";
  EXPECT_THAT(told(), ElementsAre(HasSubstr("they expire, often after an hour")));
}

// ---- Their cost

// This computer was asleep, and the lease of one expired.
TEST_F(RentingTest, AMachineThatEndedWithItsLeaseCostsNoMore) {
  spec_.lease = 10min;
  open();
  EXPECT_TRUE(cloud_->capabilities().billing.tells_ends) << "the budget waits for the charges";
  const std::vector<std::string> ids = {life_.instances[0].id, life_.instances[1].id};
  const auto ends = [&] {
    std::map<std::string, Duration> out;
    const auto charges = cloud_->charges(life_.cluster, ids, soon());
    EXPECT_TRUE(charges);
    for (const Charge& one : *charges) {
      if (one.ended) out[one.instance] = *one.ended;
    }
    return out;
  };
  fixture_.now += 30min;
  EXPECT_THAT(ends(), IsEmpty()) << "they stand";
  mall_.machines.erase(ids[0]);
  fixture_.now += 5min;
  EXPECT_THAT(ends(), IsEmpty()) << "it may be missing from a listing";
  fixture_.asleep += 8h;
  EXPECT_THAT(ends(), ElementsAre(Pair(ids[0], Duration(8h + 5min - 20min))));
  const std::int64_t now_s = fixture_.world.wall_s();
  ASSERT_TRUE(cloud_->terminate(life_.cluster, ids, soon()));
  const auto ledger = open_ledger(fixture_.world);
  ASSERT_TRUE(ledger) << ledger.error().message;
  const auto entries = (*ledger)->entries(life_.cluster.id, false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) {
    EXPECT_EQ(entry.gone_late, entry.id == ids[0]);
    if (entry.gone_late) {
      EXPECT_EQ(entry.gone_s, now_s - (8h + 5min - 20min) / 1s);
    }
  }
}

TEST_F(RentingTest, AMachineThatEndsForNoLeaseCostsMoneyUntilItIsSeenToBeGone) {
  for (const bool ends_itself : {true, false}) {
    spec_.lease = ends_itself ? 0min : 10min;
    mall_.facts.stop_ends_billing = ends_itself;
    open();
    mall_.machines.clear();
    fixture_.asleep += 8h;
    const auto charges = cloud_->charges(life_.cluster, {life_.instances[0].id}, soon());
    ASSERT_TRUE(charges);
    ASSERT_THAT(*charges, SizeIs(1));
    EXPECT_EQ(charges->front().ended, std::nullopt);
  }
}

// ---- Replacements

TEST_F(RentingTest, AReplacementIsSoughtWhereThePoolsMachinesAre) {
  mall_.full = {"z1"};
  open();
  EXPECT_EQ(mall_.refreshes, 0);
  mall_.full.clear();
  ASSERT_TRUE(replace(life_.instances[0].id));
  EXPECT_THAT(mall_.standing(), ElementsAre("z2", "z2"));
  EXPECT_EQ(mall_.refreshes, 1);
}

TEST_F(RentingTest, AReplacementWhoseKeyCannotBeStoredNowMayComeLater) {
  mall_.by_ssh = true;
  fixture_.world.run = [this, run = fixture_.world.run](
                           const io::SpawnOptions& options,
                           Duration timeout) -> Result<io::CommandResult> {
    if (!mall_.disk_is_full) return run(options, timeout);
    return io::CommandResult{
        .status = {.code = 1}, .out = "", .err = "Saving key failed: No space left on device"};
  };
  open();
  mall_.disk_is_full = true;
  const Status refused = replace(life_.instances[0].id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable) << "the engine asks again";
  mall_.disk_is_full = false;
  EXPECT_TRUE(cloud_->provision(life_.cluster, 1, 0, soon()));
}

TEST_F(RentingTest, WhatMayHaveChangedIsLookedAtWhenThePoolIsTended) {
  open();
  ASSERT_TRUE(cloud_->tend(life_.cluster, soon()));
  EXPECT_EQ(mall_.refreshes, 1);
}

// It would look like what a request without an answer made.
TEST_F(RentingTest, ALaunchKeepsItsMachinesWhenThePoolIsTendedMeanwhile) {
  open();
  mall_.on_launch = [this] { EXPECT_TRUE(cloud_->tend(life_.cluster, soon())); };
  ASSERT_TRUE(replace(life_.instances[0].id));
  EXPECT_THAT(mall_.standing(), SizeIs(2));
}

// Somebody has tidied up.
TEST_F(RentingTest, WhatIsDeletedOfItsFolderIsThereAgainWhenThePoolIsTended) {
  mall_.by_ssh = true;
  open();
  EXPECT_EQ(cloud_->capabilities().tend_interval, 60s);
  const std::string folder = pool_directory(fixture_.world, life_.cluster.id);
  const std::string login = io::read_file(folder + "/login").value();
  const std::string known = io::read_file(folder + "/host-1.known").value();
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(is_open_here(fixture_.world, life_.cluster.id));
  ASSERT_TRUE(cloud_->tend(life_.cluster, soon()));
  EXPECT_TRUE(is_open_here(fixture_.world, life_.cluster.id)) << "gc would end its machines";
  EXPECT_EQ(io::read_file(folder + "/login").value(), login);
  EXPECT_EQ(io::read_file(folder + "/host-1.known").value(), known);
}

// It would end at its first look at the clock.
TEST_F(RentingTest, NoMachineIsLaunchedWhenTheTimeoutHasExpiredByTheCloudsClock) {
  open();
  const std::size_t launches = mall_.terms.size();
  mall_.ahead_s += spec_.timeout / 1s - 60;
  ASSERT_TRUE(replace(life_.instances[0].id));
  mall_.ahead_s += 60;
  const auto late = cloud_->provision(life_.cluster, 1, 0, soon());
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("this pool's timeout=3600 has expired"));
  EXPECT_EQ(mall_.terms.size(), launches + 1);
}

TEST_F(RentingTest, ReplacementsKeepTheShareOfSpotMachines) {
  spec_.spot = Spot::Percent(0.5);
  open();
  ASSERT_THAT(mall_.standing(), ElementsAre("z1 spot", "z1 spot"));
  mall_.has_spot = false;
  ASSERT_TRUE(replace(life_.instances[0].id)) << "one of two is left";
  EXPECT_THAT(mall_.standing(), ElementsAre("z1 spot", "z1"));
  ASSERT_TRUE(replace("m-2")) << "it was none";
  EXPECT_FALSE(replace(life_.instances[1].id)) << "none would be left";
  mall_.has_spot = true;
  ASSERT_TRUE(cloud_->provision(life_.cluster, 1, 0, soon()));
  EXPECT_THAT(mall_.standing(), ElementsAre("z1", "z1 spot"));
}

TEST_F(RentingTest, SpotMachinesAreNotAskedForWhereThereAreNone) {
  spec_.spot = Spot::Always();
  mall_.facts.spot = false;
  open();
  EXPECT_THAT(mall_.standing(), ElementsAre("z1", "z1"));
  mall_.facts.spot = true;
  mall_.places.front().spot = false;
  open();
  EXPECT_THAT(mall_.standing(), ElementsAre("z1", "z1", "z2 spot", "z2 spot"));
  mall_.has_few_spot_types = true;
  open();
  EXPECT_THAT(mall_.standing(), SizeIs(6));
  EXPECT_FALSE(mall_.machines.at("m-5").instance.spot);
}

}  // namespace
}  // namespace skyward::provider
