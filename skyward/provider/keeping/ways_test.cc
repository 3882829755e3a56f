// Which places a sweep has to search, and which it may leave out.

#include "skyward/provider/keeping/ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What a way leads to.
struct Place {
  Result<SweepAccount> account = SweepAccount{.owner = "me", .account = "A", .home_region = "a"};
  std::optional<Refusal> refusal{};  // of listings
  int sign_ins = 0;
  int listings = 0;
};

class NoMachines final : public MachineApi {
 public:
  const MachineApiFacts& facts() const override { return facts_; }
  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch&, Time) override {
    return std::vector<std::string>();
  }
  Result<std::vector<MachineStatus>> find(std::string_view, Time) override {
    return std::vector<MachineStatus>();
  }
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>&, Time) override {
    return std::vector<MachineStatus>();
  }
  Result<std::vector<std::string>> terminate(const std::vector<std::string>&, Time) override {
    return std::vector<std::string>();
  }

 private:
  const MachineApiFacts facts_{.cloud = "the yard"};
};

class Account final : public NamedAccount {
 public:
  explicit Account(Place& place) : place_(place) {}
  std::string_view provider() const override { return "yard"; }
  std::string_view cloud() const override { return "the yard"; }
  Result<SweepAccount> sign_in(Time) override {
    ++place_.sign_ins;
    return place_.account;
  }
  ApiResult<std::vector<NamedMachine>> machines(Time) override {
    ++place_.listings;
    if (place_.refusal) {
      return std::unexpected(ApiError{.refusal = *place_.refusal, .message = "it is off"});
    }
    return std::vector<NamedMachine>();
  }
  std::vector<SideResourceKind*> kinds() override { return {}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster&) override {
    return std::make_unique<NoMachines>();
  }

 private:
  Place& place_;
};

class WaysTest : public ::testing::Test {
 protected:
  WaysTest() { world_.variables["XDG_STATE_HOME"] = state_; }
  ~WaysTest() override { std::filesystem::remove_all(state_); }

  void open_pool(const std::string& account, const std::string& id = "yard-1") {
    std::map<std::string, std::string> settings = this_computer(world_.world);
    settings["owner"] = "me";
    settings["account"] = account;
    EXPECT_TRUE(open_ledger(world_.world)
                    .value()
                    ->open_pool({.id = id,
                                 .provider = "yard",
                                 .region = "a",
                                 .settings = std::move(settings),
                                 .expires_s = world_.wall_s + 600}));
  }
  static Place off() { return {.account = fail(ErrorKind::unavailable, "nobody answers")}; }
  struct Way {
    Place& place;
    bool is_set = true;
    std::string path{};  // empty: one of its own
  };
  Status sweep(const std::vector<Way>& ways, const SweepOptions& options = {}) {
    told_.clear();
    std::vector<SweepWay> all;
    for (const Way& way : ways) {
      all.push_back({.account = std::make_unique<Account>(way.place),
                     .path = way.path.empty() ? std::to_string(all.size()) : way.path,
                     .is_set = way.is_set});
    }
    return sweep_ways(
        world_.world, open_pools_of(world_.world, "yard"), all, options,
        [this](const Swept& one) { told_.push_back(one); }, world_.now + 600s);
  }
  std::vector<std::string> told() const {
    std::vector<std::string> out;
    for (const Swept& one : told_) {
      out.push_back(std::string(to_string(one.action)) + " " + one.resource.id);
    }
    return out;
  }

  const std::string state_ = ::testing::TempDir() + "skyward-ways-" + io::random_hex(8);
  WorldFixture world_;
  std::vector<Swept> told_;
};

TEST_F(WaysTest, OfSeveralWaysToAnAccountOneIsGone) {
  Place first;
  Place again;
  Place other{.account = SweepAccount{.owner = "me", .account = "B"}};
  EXPECT_TRUE(sweep({{first}, {again}, {other}}));
  EXPECT_GT(first.listings, 0);
  EXPECT_EQ(again.listings, 0);
  EXPECT_GT(other.listings, 0);
}

// Each pool in the ledger has its way, and a login may take a minute to fail.
TEST_F(WaysTest, EqualWaysAreSignedInToOnce) {
  Place place = off();
  std::vector<Way> ways(20, Way{place, false, "me@login"});
  ways.push_back({place, true, "me@login"});
  Place other;
  ways.push_back({other, false, "me@other"});
  EXPECT_THAT(sweep(ways).error().message, HasSubstr("nobody answers"));
  EXPECT_EQ(place.sign_ins, 1);
  EXPECT_GT(other.listings, 0);
}

TEST_F(WaysTest, APlaceThatIsOffIsLeftOutWhereNothingCanBe) {
  Place place = off();
  EXPECT_TRUE(sweep({{place}}));
  EXPECT_THAT(told(), ElementsAre("skipped yard"));
  EXPECT_THAT(told_.front().why, HasSubstr("nobody answers"));
}

TEST_F(WaysTest, APlaceThatIsOffMustAnswerIfTheUserNamedIt) {
  Place place = off();
  EXPECT_THAT(sweep({{place}}, {.is_named = true}).error().message, HasSubstr("nobody answers"));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(WaysTest, APlaceThatIsOffMustAnswerIfOnlyTheLedgerLeadsThere) {
  Place place = off();
  EXPECT_FALSE(sweep({{place, false}}));
}

TEST_F(WaysTest, APlaceThatIsOffMayBeThatOfAnyPool) {
  open_pool("B");
  Place place = off();
  EXPECT_FALSE(sweep({{place}})) << "nobody knows which account that is";
}

TEST_F(WaysTest, APlaceThatCannotBeListedMustBeOnlyForAPoolThere) {
  Place place{.refusal = Refusal::transient};
  EXPECT_TRUE(sweep({{place}}));
  EXPECT_THAT(told(), ElementsAre("skipped yard"));
  open_pool("B");
  EXPECT_TRUE(sweep({{place}}));
  open_pool("A", "yard-2");
  EXPECT_FALSE(sweep({{place}}));
}

TEST_F(WaysTest, WhereNoPlaceIsSearchedTheProviderIsTheOneThatIsSkipped) {
  Place off_place{.refusal = Refusal::transient};
  EXPECT_TRUE(sweep({{off_place}}));
  ASSERT_THAT(told(), ElementsAre("skipped yard"));
  EXPECT_EQ(told_.front().resource.kind, "provider");
  EXPECT_EQ(told_.front().resource.region, "a");
  Place other{.account = SweepAccount{.owner = "me", .account = "B"}};
  EXPECT_TRUE(sweep({{off_place}, {other, false}}));
  ASSERT_THAT(told(), ElementsAre("skipped a"));
  EXPECT_EQ(told_.front().resource.kind, "region");
}

TEST_F(WaysTest, APlaceThatRefusesToBeListedIsOneThatAnswers) {
  Place place{.refusal = Refusal::auth};
  EXPECT_THAT(sweep({{place}}).error().message, HasSubstr("it is off"));
}

TEST_F(WaysTest, AFailureKeepsNoOtherPlaceFromBeingSearched) {
  Place first = off();
  Place second{.account = fail(ErrorKind::unavailable, "nor here")};
  Place third;
  EXPECT_THAT(sweep({{first, false}, {second, false}, {third}}).error().message,
              HasSubstr("nobody answers"));
  EXPECT_GT(third.listings, 0);
}

TEST_F(WaysTest, APoolOfAnotherAccountIsNotToldAsSkippedByEachSweep) {
  open_pool("B");
  Place place;
  EXPECT_TRUE(sweep({{place}}));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(WaysTest, ALedgerThatCannotBeReadFailsTheSweepInTheEnd) {
  Place place;
  std::vector<SweepWay> ways;
  ways.push_back({.account = std::make_unique<Account>(place), .is_set = true});
  const Status swept = sweep_ways(
      world_.world, fail(ErrorKind::unavailable, "the ledger is torn"), ways, {},
      [](const Swept&) {}, world_.now + 600s);
  EXPECT_THAT(swept.error().message, HasSubstr("the ledger is torn"));
  EXPECT_GT(place.listings, 0);
}

}  // namespace
}  // namespace skyward::provider
