// Which machines a sweep may end, and which it may strike off the ledger.

#include "skyward/provider/renting/sweeping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// An account with regions "east" and "west".
class Yard final : public LeakSource {
 public:
  std::string_view name() const override { return "yard"; }
  std::string_view vendor() const override { return "the yard"; }
  bool machines_end_themselves() const override { return true; }
  Result<SweepAccount> sign_in(Time) override { return account; }
  Result<std::vector<std::string>> regions(Time) override {
    return std::vector<std::string>{"east", "west"};
  }
  Result<Listing> list(const std::string& region, const std::optional<std::string>&,
                       Time) override {
    Listing out{.ended = ended};
    for (const Resource& one : listed) {
      if (lists_all || one.region == region) out.resources.push_back(one);
    }
    return out;
  }
  std::string place_of(const std::string& region) const override { return lists_all ? "" : region; }
  std::string way_to_account(const LedgerPool&) const override { return ""; }
  std::unique_ptr<MachineApi> machine_api(const Cluster&) override {
    return std::make_unique<Api>(*this);
  }
  Result<std::vector<std::string>> clear(const Cluster&, PoolBook& book, Time) override {
    ++clears;
    book.gone({"k-1"});
    std::erase_if(listed, [](const Resource& one) { return one.kind != "instance"; });
    return std::vector<std::string>();
  }

  SweepAccount account{.owner = "me", .account = "1234", .home_region = "east"};
  std::vector<Resource> listed;
  std::set<std::string> known;  // machines that it knows when it is asked for them
  std::map<std::string, std::optional<std::int64_t>> ended;
  std::map<std::string, std::vector<std::string>> marked;  // machines by their launch's token
  bool is_deaf = false;                                    // it ends nothing
  bool lists_all = false;                                  // one listing for all regions
  std::vector<std::string> asked;                          // to end
  int clears = 0;

 private:
  class Api final : public MachineApi {
   public:
    explicit Api(Yard& yard) : yard_(yard) {}
    const MachineApiFacts& facts() const override { return facts_; }
    std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch&,
                                                                  Time) override {
      return std::unexpected(LaunchRefusal{});
    }
    Result<std::vector<MachineStatus>> find(std::string_view token, Time deadline) override {
      const auto ids = yard_.marked.find(std::string(token));
      if (ids == yard_.marked.end()) return std::vector<MachineStatus>();
      return look_up(ids->second, deadline);
    }
    Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids, Time) override {
      std::vector<MachineStatus> out;
      for (const std::string& id : ids) {
        if (yard_.known.contains(id)) {
          out.push_back({.instance = {.id = id}, .stage = Stage::running});
        }
      }
      return out;
    }
    Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids, Time) override {
      if (yard_.is_deaf) return fail(ErrorKind::unavailable, "nobody hears");
      std::vector<std::string> heard;
      for (const std::string& id : ids) {
        yard_.asked.push_back(id);
        if (yard_.known.erase(id) + yard_.hearing.erase(id) > 0) heard.push_back(id);
      }
      return heard;
    }

   private:
    Yard& yard_;
    const MachineApiFacts facts_{
        .cloud = "the yard", .known_after = 300s, .unanswered_limit_s = 900};
  };

 public:
  std::set<std::string> hearing;  // machines that it does not list, and can end
};

class SweepingTest : public ::testing::Test {
 protected:
  SweepingTest() {
    world_.variables["XDG_STATE_HOME"] = state_;
    auto opened = open_ledger(world_.world);
    EXPECT_TRUE(opened) << opened.error().message;
    ledger_ = *std::move(opened);
  }
  ~SweepingTest() override { std::filesystem::remove_all(state_); }

  // A pool in the east that this computer has opened, with the machine i-1, which is a minute old.
  void open_pool(std::map<std::string, std::string> settings = {}) {
    settings.merge(std::map<std::string, std::string>{{"owner", "me"}, {"account", "1234"}});
    settings.merge(this_computer(world_.world));
    EXPECT_TRUE(ledger_->open_pool({.id = "yard-1",
                                    .provider = "yard",
                                    .region = "east",
                                    .settings = std::move(settings),
                                    .opened_s = world_.wall_s - 60,
                                    .expires_s = kExpires_s}));
    enter({.key = "token", .kind = "instance", .id = "i-1", .asked_s = world_.wall_s - 60});
  }
  // ... that another computer has opened, which shares the ledger.
  void open_pool_elsewhere() {
    open_pool({{"host", "other"}, {"boot", "its own"}, {"computer", "another"}});
  }
  void enter(LedgerEntry entry) {
    entry.pool = "yard-1";
    EXPECT_TRUE(ledger_->ask(entry));
  }
  Status sweep(const SweepOptions& options = {}) {
    told_.clear();
    return sweep_account(
        world_.world, yard_, options, [this](const Swept& one) { told_.push_back(one); },
        world_.now + 600s);
  }
  std::vector<std::string> told_ids() const {
    std::vector<std::string> out;
    for (const Swept& one : told_) out.push_back(one.resource.id);
    return out;
  }
  std::vector<std::string> open_in_ledger() {
    std::vector<std::string> out;
    const auto entries = ledger_->entries("yard-1", true);
    for (const LedgerEntry& entry : *entries) {
      out.push_back(entry.id.empty() ? "unanswered" : entry.id);
    }
    return out;
  }
  LedgerEntry machine() {
    const auto entries = ledger_->entries("yard-1", false);
    return *std::ranges::find(*entries, "i-1", &LedgerEntry::id);
  }
  bool is_closed() { return ledger_->pools(true)->empty(); }

  static constexpr std::int64_t kExpires_s = 1'700'003'600;
  const std::string state_ = ::testing::TempDir() + "skyward-sweeping-" + io::random_hex(8);
  WorldFixture world_;
  Yard yard_;
  std::unique_ptr<Ledger> ledger_;
  std::vector<Swept> told_;
};

// ---- Which pools are left behind

TEST_F(SweepingTest, AMachineOfADeadProgramThatLostItsMarksIsEnded) {
  open_pool();
  yard_.known = {"i-1"};
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, ElementsAre("i-1"));
  EXPECT_TRUE(is_closed());
}

TEST_F(SweepingTest, AMachineOfAPoolThatIsOpenHereIsNotEndedThoughNoListingHasItYet) {
  open_pool();
  const auto held = make_pool_directory(world_.world, "yard-1");
  ASSERT_TRUE(held);
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, IsEmpty());
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
}

TEST_F(SweepingTest, AMachineThatMayBeInUseElsewhereIsNotEndedBeforeItsPoolsTimeIsOver) {
  open_pool_elsewhere();
  yard_.known = {"i-1"};
  world_.wall_s = kExpires_s + 120;  // it ends itself in that time
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, IsEmpty());
  EXPECT_THAT(told_, Contains(Field(&Swept::why, HasSubstr("may be in use there"))));
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
  ++world_.wall_s;
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, ElementsAre("i-1"));
  EXPECT_TRUE(is_closed());
}

TEST_F(SweepingTest, AMachineThatMayBeInUseElsewhereIsEndedWhenItsPoolIsNamed) {
  open_pool_elsewhere();
  yard_.known = {"i-1"};
  EXPECT_TRUE(sweep({.pool = "yard-1"}));
  EXPECT_THAT(yard_.asked, ElementsAre("i-1"));
  EXPECT_TRUE(is_closed());
}

TEST_F(SweepingTest, APoolInAnotherRegionThanTheNamedOneIsNotTouched) {
  open_pool();
  yard_.hearing = {"i-1"};
  EXPECT_TRUE(sweep({.regions = {"west"}}));
  EXPECT_THAT(yard_.asked, IsEmpty());
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
  EXPECT_TRUE(sweep({.regions = {"east"}}));
  EXPECT_THAT(yard_.asked, ElementsAre("i-1"));
}

TEST_F(SweepingTest, WhereOneListingShowsAllRegionsOnlyTheNamedOneIsTouched) {
  yard_.lists_all = true;
  open_pool();
  yard_.hearing = {"i-1", "i-2", "i-3"};
  const auto add = [&](const char* kind, const char* id, const char* region, const char* pool) {
    yard_.listed.push_back(
        {.kind = kind, .id = id, .region = region, .pool = pool, .owner = "me", .expires_s = 1});
  };
  add("instance", "i-2", "east", "yard-2");
  add("volume", "v-2", "", "yard-2");
  add("instance", "i-3", "west", "yard-3");
  add("volume", "v-3", "", "yard-3");
  EXPECT_TRUE(sweep({.dry_run = true, .regions = {"south"}}));
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_TRUE(sweep({.regions = {"west"}}));
  EXPECT_THAT(told_ids(), UnorderedElementsAre("i-3", "v-3"));
  EXPECT_THAT(yard_.asked, Each("i-3"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
}

// Only the ledger knows what these pools have: the listing is empty.
TEST_F(SweepingTest, ADryRunAsksForNothing) {
  open_pool();
  yard_.hearing = {"i-1"};
  LedgerPool other = ledger_->find_pool("yard-1").value().value();
  other.id = "yard-2";
  ASSERT_TRUE(ledger_->open_pool(other));
  ASSERT_TRUE(ledger_->ask({.key = "key",
                            .pool = "yard-2",
                            .kind = "ssh_key",
                            .id = "k-1",
                            .asked_s = world_.wall_s - 60}));
  world_.wall_s += 600;
  EXPECT_TRUE(sweep({.dry_run = true}));
  EXPECT_THAT(yard_.asked, IsEmpty());
  EXPECT_EQ(yard_.clears, 0);
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
  EXPECT_THAT(ledger_->pools(true).value(), SizeIs(2));
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, ElementsAre("i-1"));
  EXPECT_EQ(yard_.clears, 2);
  EXPECT_TRUE(is_closed());
}

TEST_F(SweepingTest, AClosedPoolIsNotClearedAgain) {
  open_pool();
  ASSERT_TRUE(ledger_->gone("yard-1", {"i-1"}, world_.wall_s));
  ASSERT_TRUE(ledger_->close_pool("yard-1", world_.wall_s));
  EXPECT_TRUE(sweep());
  EXPECT_EQ(yard_.clears, 0);
  EXPECT_THAT(world_.pauses, IsEmpty()) << "no region has to be looked at twice";
}

// ---- What is struck off

TEST_F(SweepingTest, AMachineThatIsListedAsSomebodyElsesIsNotAskedToEnd) {
  open_pool();
  yard_.listed = {{.kind = "instance",
                   .id = "i-1",
                   .region = "east",
                   .pool = "yard-1",
                   .owner = "you",
                   .expires_s = kExpires_s}};
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, IsEmpty());
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
}

TEST_F(SweepingTest, OnlyMachinesThatMayStandAreAskedToEnd) {
  open_pool();
  yard_.ended["i-1"] = world_.wall_s - 10;
  yard_.known = {"k-1"};
  enter({.key = "asked for", .kind = "instance", .asked_s = world_.wall_s - 900});
  enter({.key = "key", .kind = "ssh_key", .id = "k-1", .asked_s = world_.wall_s - 60});
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, IsEmpty());
  EXPECT_EQ(machine().gone_s, world_.wall_s - 10);
  EXPECT_FALSE(machine().gone_late);
  EXPECT_TRUE(is_closed());
}

// A reaper has its lock there.
TEST_F(SweepingTest, ThePoolsDirectoryStaysWhileAMachineMayStillAppear) {
  open_pool();
  yard_.ended["i-1"] = world_.wall_s - 10;
  enter({.key = "asked for", .kind = "instance", .asked_s = world_.wall_s - 899});
  const std::string directory = make_pool_directory(world_.world, "yard-1").value().path;
  EXPECT_TRUE(sweep());
  EXPECT_THAT(open_in_ledger(), ElementsAre("unanswered"));
  EXPECT_TRUE(std::filesystem::exists(directory));
  ++world_.wall_s;
  EXPECT_TRUE(sweep());
  EXPECT_TRUE(is_closed());
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(SweepingTest, AMachineOfARequestThatNobodyAnsweredIsInTheLedgerWhenItEnds) {
  open_pool();
  enter({.key = "asked for", .kind = "instance", .asked_s = world_.wall_s - 60});
  yard_.marked["asked for"] = {"i-2"};
  yard_.known = {"i-1", "i-2"};
  yard_.listed = {{.kind = "instance",
                   .id = "i-2",
                   .region = "east",
                   .pool = "yard-1",
                   .owner = "me",
                   .expires_s = kExpires_s}};
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, Contains("i-2"));
  EXPECT_THAT(open_in_ledger(), IsEmpty());
  const auto entries = ledger_->entries("yard-1", false);
  EXPECT_THAT(*entries, Contains(Field(&LedgerEntry::id, "i-2")));
}

TEST_F(SweepingTest, NoMachineEndedBeforeItWasAskedFor) {
  open_pool();
  yard_.ended["i-1"] = world_.wall_s - 100;  // by a clock that is behind ours
  EXPECT_TRUE(sweep());
  EXPECT_EQ(machine().gone_s, machine().asked_s);
}

TEST_F(SweepingTest, AMachineThatIsUnknownIsStruckOffOnlyAfterItsTime) {
  open_pool();
  world_.wall_s += 239;
  EXPECT_TRUE(sweep());
  EXPECT_THAT(yard_.asked, ElementsAre("i-1")) << "it may stand";
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
  ++world_.wall_s;
  EXPECT_TRUE(sweep());
  EXPECT_EQ(machine().gone_s, world_.wall_s);
  EXPECT_TRUE(machine().gone_late) << "nobody saw it go";
  EXPECT_TRUE(is_closed());
}

TEST_F(SweepingTest, AYoungMachineWhoseEndTheCloudHasHeardOfIsStruckOff) {
  open_pool();
  yard_.hearing = {"i-1"};
  EXPECT_TRUE(sweep());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(SweepingTest, NothingIsStruckOffThatCouldNotBeAskedToEnd) {
  open_pool();
  world_.wall_s += 600;
  yard_.is_deaf = true;
  EXPECT_THAT(sweep().error().message, HasSubstr("nobody hears"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
}

// To other credentials, a machine of another account is unknown for ever.
TEST_F(SweepingTest, WithOtherCredentialsAnUnknownMachineIsStruckOffOnlyWhereItsPoolIsSeen) {
  open_pool({{"account", "another key"}});
  yard_.account.by_credentials = true;
  world_.wall_s += 600;
  EXPECT_TRUE(sweep({.pool = "yard-1"}));
  EXPECT_THAT(open_in_ledger(), ElementsAre("i-1"));
  EXPECT_THAT(told_, Contains(Field(&Swept::why, HasSubstr("with other credentials"))));
  yard_.listed = {{.kind = "ssh_key", .id = "k-1", .region = "east", .pool = "yard-1"}};
  EXPECT_TRUE(sweep({.pool = "yard-1"}));
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

}  // namespace
}  // namespace skyward::provider
