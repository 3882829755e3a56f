#include "skyward/provider/launch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Duration kPatience = 1h;

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    spec_.count = 4;
    spec_.places = {
        {.type = "a", .zone = "z1", .spot_price = 1.0, .on_demand_price = 3.0},
        {.type = "b", .zone = "z2", .spot_price = 2.0, .on_demand_price = 4.0},
    };
  }

  Result<std::vector<std::string>> launch(Time deadline) {
    const LaunchActions actions{
        .attempt = [this](const Attempt& wanted) { return attempt(wanted); },
        .release = [this](const std::vector<MachineStatus>& machines) -> Status {
          for (const MachineStatus& one : machines) standing_.erase(one.instance.id);
          if (!clingy_) return {};
          return fail(ErrorKind::timeout, "some machines would not go");
        }};
    const auto machines = launch_all(world_.world, spec_, record_, actions, deadline);
    if (!machines) return fail(machines);
    std::vector<std::string> ids;
    for (const MachineStatus& one : *machines) ids.push_back(one.instance.id);
    return ids;
  }
  Result<std::vector<std::string>> launch() { return launch(world_.now + kPatience); }

  std::expected<std::vector<MachineStatus>, LaunchFailure> attempt(const Attempt& wanted) {
    if (++attempts_ == last_attempt_) world_.world.launching.request_stop();
    const LaunchTarget& place = spec_.places[wanted.placement];
    const std::string name = place.type + (wanted.spot ? " spot" : "");
    if (broken_.contains(name)) {
      return std::unexpected(LaunchFailure{{ErrorKind::denied, "you may not", "ask someone"}});
    }
    if (slow_.contains(name)) {
      const Error late{ErrorKind::timeout, name + " did not start in time"};
      record_.withdrawn(late.message);
      return std::unexpected(LaunchFailure{late});
    }
    if (quotas_.contains(name)) {
      return std::unexpected(
          record_.refused(place, wanted.spot, "TooMany",
                          {{ErrorKind::exhausted, "too many", "ask for more"}, true, true}));
    }
    if (full_.contains(name) || wanted.count > most_at_once_) {
      return std::unexpected(
          record_.refused(place, wanted.spot, "Full", {{ErrorKind::exhausted, "full"}, true}));
    }
    std::vector<MachineStatus> made;
    for (int i = 0; i < wanted.count; ++i) {
      made.push_back({.instance = {.id = fmt::format("{} {}", name, ++made_)}});
      standing_.insert(made.back().instance.id);
    }
    return made;
  }

  WorldFixture world_;
  LaunchSpec spec_;
  LaunchRecord record_{"the cloud", "here-1"};
  std::set<std::string> full_;  // types that refuse: "a spot", or "a" for on demand
  std::set<std::string> quotas_;
  std::set<std::string> broken_;
  std::set<std::string> slow_;
  std::set<std::string> standing_;
  int made_ = 0;
  int most_at_once_ = 1000;
  bool clingy_ = false;  // machines that do not go
  int attempts_ = 0;
  int last_attempt_ = 0;  // during this one the pool begins to close
};

TEST_F(LaunchTest, TakesTheFirstPlaceThatHasAll) {
  full_ = {"a spot"};
  const auto machines = launch();
  ASSERT_TRUE(machines);
  EXPECT_THAT(*machines, ElementsAre("b spot 1", "b spot 2", "b spot 3", "b spot 4"));
}

TEST_F(LaunchTest, StopsWhenNoMachineIsWantedAnyMore) {
  spec_.spot = Spot::Percent(0.5);
  spec_.spot.retries = 1000;
  most_at_once_ = 2;
  last_attempt_ = 3;  // two stand, two are still missing
  full_ = {"a", "b"};
  const auto none = launch();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(attempts_, 3);
  EXPECT_THAT(standing_, IsEmpty());
}

// All four as spot machines are refused; two stand, and their on-demand half is refused.
TEST_F(LaunchTest, NothingIsLeftWhenAPartCannotBeHad) {
  spec_.spot = Spot::Percent(0.5);
  spec_.spot.retries = 1;
  spec_.places.pop_back();
  most_at_once_ = 2;
  full_ = {"a"};
  const auto none = launch();
  ASSERT_FALSE(none);
  EXPECT_EQ(made_, 2);
  EXPECT_THAT(standing_, IsEmpty());
  const auto facts = shortage_of(none.error());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->got, 2);
  EXPECT_EQ(facts->region, "here-1");
  EXPECT_THAT(none.error().message, HasSubstr("a in z1: Full"));
}

TEST_F(LaunchTest, WaitsBetweenRoundsAndNamesWhatRefused) {
  spec_.spot = Spot::Always();
  spec_.spot.retries = 3;
  spec_.spot.interval = 10s;
  full_ = {"a spot", "b spot"};
  const auto none = launch();
  ASSERT_FALSE(none);
  EXPECT_THAT(world_.pauses, ElementsAre(10s, 10s));
  EXPECT_EQ(none.error().kind, ErrorKind::exhausted);
  EXPECT_EQ(none.error().message,
            "the cloud, here-1: no capacity for 4 spot machines: a in z1 as spot: Full; b in z2 as "
            "spot: Full");
  EXPECT_THAT(none.error().hint, HasSubstr("spot=\"if-available\""));
  EXPECT_EQ(shortage_of(none.error())->kind, ShortageKind::spot_capacity);
  EXPECT_THAT(shortage_of(none.error())->offers,
              ElementsAre("a in here-1, $3.0000 on demand", "b in here-1, $4.0000 on demand"));
}

TEST_F(LaunchTest, StopsBeforeAWaitThatWouldOutlastItsTime) {
  spec_.spot = Spot::Always();
  spec_.spot.retries = 3;
  spec_.spot.interval = 10s;
  full_ = {"a spot", "b spot"};
  const auto none = launch(world_.now + 15s);
  ASSERT_FALSE(none);
  EXPECT_THAT(world_.pauses, ElementsAre(10s));
  EXPECT_EQ(none.error().kind, ErrorKind::exhausted);
}

TEST_F(LaunchTest, QuotasAloneAreCalledSo) {
  spec_.spot = Spot::Never();
  quotas_ = {"a", "b"};
  const auto none = launch();
  ASSERT_FALSE(none);
  EXPECT_EQ(shortage_of(none.error())->kind, ShortageKind::quota);
  EXPECT_EQ(none.error().message,
            "the cloud, here-1: the account's quota does not allow 4 more machines there: a in z1: "
            "TooMany: too many");
  EXPECT_EQ(none.error().hint, "ask for more");
  record_.refused(spec_.places[0], false, "Full", {{ErrorKind::exhausted, "full"}, true});
  const Error mixed = record_.no_machines(LaunchOutcome::no_capacity, spec_);
  EXPECT_EQ(shortage_of(mixed)->kind, ShortageKind::capacity);
  EXPECT_THAT(mixed.message, HasSubstr("no capacity for 4 machines"));
}

TEST_F(LaunchTest, TheHintOfAllRefusalsIsShown) {
  const auto hint_after = [&](const char* hint) {
    record_.refused(spec_.places[0], false, "Full", {{ErrorKind::exhausted, "full", hint}, true});
    return record_.no_machines(LaunchOutcome::no_capacity, spec_).hint;
  };
  EXPECT_EQ(hint_after("free an address"), "free an address");
  EXPECT_EQ(hint_after("free an address"), "free an address");
  EXPECT_THAT(hint_after(""), HasSubstr("try later"));
  EXPECT_THAT(hint_after("free an address"), HasSubstr("try later"));
}

TEST_F(LaunchTest, AMarketWithAQuotaIsLeftForTheOtherOne) {
  spec_.spot = Spot::IfAvailable();
  quotas_ = {"a spot"};
  const auto machines = launch();
  ASSERT_TRUE(machines);
  EXPECT_THAT(*machines, ElementsAre("a 1", "a 2", "a 3", "a 4"));
  EXPECT_EQ(attempts_, 2) << "no other place is asked for spot machines";
}

// "2 of 2 did not start in time" alone would hide why there was no time left.
TEST_F(LaunchTest, WhenTimeRunsOutAllThatStoodInTheWayIsTold) {
  record_.withdrawn("a in z1 did not start (gone)");
  slow_ = {"a"};
  spec_.spot = Spot::Never();
  const auto none = launch();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(none.error().message, HasSubstr("did not start (gone); a did not start in time"));
}

TEST_F(LaunchTest, AnotherFailureEndsItAndSaysWhatIsLeft) {
  spec_.spot = Spot::Percent(0.5);
  most_at_once_ = 2;
  broken_ = {"a"};
  clingy_ = true;
  const auto none = launch();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::denied);
  EXPECT_EQ(none.error().message, "you may not; some machines would not go");
}

}  // namespace
}  // namespace skyward::provider
