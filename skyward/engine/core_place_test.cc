// The region of a pool: what happens when the first one has no machines.

#include "skyward/engine/core_fixture.h"
#include "skyward/spec/shortage.h"

namespace skyward::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Offer offer_in(const std::string& region) { return {.instance_type = "big", .region = region}; }

std::unexpected<Error> sold_out(const std::string& region) {
  return std::unexpected(
      with_shortage({ErrorKind::exhausted, region + " is sold out", "try later"},
                    {.kind = ShortageKind::spot_capacity, .requested = 2, .region = region}));
}

class CorePlaceTest : public CoreTest {
 protected:
  // To the point where the cloud is asked for machines.
  void open_in(const std::string& region) {
    make({.nodes = 2});
    on_open(state, effects, now);
    effects.drop_events();
    effects.take<ListOffers>();
    prepare_in(region, {region});
  }
  void prepare_in(const std::string& region, const std::vector<std::string>& offered) {
    answer_offers(offered);
    prepared(region);
  }
  void answer_offers(const std::vector<std::string>& regions) {
    std::vector<Offer> offers;
    for (const std::string& region : regions) offers.push_back(offer_in(region));
    on_offers(state, effects, now, std::move(offers));
  }
  void prepared(const std::string& region) {
    EXPECT_EQ(effects.take<Prepare>().offer.region, region);
    on_prepared(state, effects, now, Cluster{.id = "cloud-" + region, .region = region});
    effects.drop_events();
    EXPECT_EQ(effects.take<Provision>().count, 2);
  }
  // The region has none, and others are asked.
  void refuse(const std::string& region) {
    on_provisioned(state, effects, now, NodeId{0}, 2, sold_out(region));
    EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr(region + " is sold out"));
    effects.take<ListOffers>();
  }
  Status end_of_opening() {
    effects.drop_events();
    effects.take<Teardown>();
    on_torn_down(state, effects, now, {});
    effects.drop_events();
    const Status status = effects.take<Opened>().status;
    effects.take<Closed>();
    return status;
  }
};

TEST_F(CorePlaceTest, WhatWasPreparedIsGivenBackBeforeTheNextRegion) {
  open_in("north");
  refuse("north");
  answer_offers({"north", "south"});
  effects.take<Teardown>();
  effects.expect_nothing_else();
  EXPECT_EQ(state.phase, Phase::moving);
  on_torn_down(state, effects, now, {});
  prepared("south");
  on_provisioned(state, effects, now, NodeId{0}, 2, std::vector{machine(0), machine(1)});
  effects.drop_all();
  EXPECT_EQ(state.phase, Phase::starting);
  EXPECT_EQ(state.placement.cluster().region, "south");
}

TEST_F(CorePlaceTest, WhenNoRegionIsLeftTheErrorNamesAll) {
  open_in("north");
  refuse("north");
  answer_offers({"south"});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  prepared("south");
  refuse("south");
  answer_offers({"south", "north"});
  const Status status = end_of_opening();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("north is sold out; south is sold out"));
  const auto shortage = shortage_of(status.error());
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->kind, ShortageKind::spot_capacity);
  EXPECT_EQ(shortage->region, "north");
  EXPECT_THAT(shortage->regions, ElementsAre("north", "south"));
}

TEST_F(CorePlaceTest, NoMoreRegionsAreTriedThanTheLimitSays) {
  open_in("r1");
  for (std::size_t i = 1; i < kMaxPlacesTried; ++i) {
    refuse("r" + std::to_string(i));
    const std::string next = "r" + std::to_string(i + 1);
    answer_offers({next});
    effects.take<Teardown>();
    on_torn_down(state, effects, now, {});
    prepared(next);
  }
  on_provisioned(state, effects, now, NodeId{0}, 2, sold_out("the last"));
  EXPECT_THAT(end_of_opening().error().message, HasSubstr("the last is sold out"));
}

TEST_F(CorePlaceTest, AnotherErrorEndsTheOpeningAtOnce) {
  open_in("north");
  on_provisioned(state, effects, now, NodeId{0}, 2, fail(ErrorKind::denied, "no rights"));
  EXPECT_EQ(end_of_opening().error().message, "no rights");
}

TEST_F(CorePlaceTest, ARegionThatCannotBePreparedHasNothingToGiveBack) {
  make({.nodes = 2});
  on_open(state, effects, now);
  effects.drop_events();
  effects.take<ListOffers>();
  answer_offers({"north"});
  effects.take<Prepare>();
  on_prepared(state, effects, now, sold_out("north"));
  effects.drop_events();
  effects.take<ListOffers>();
  prepare_in("south", {"south"});
  effects.drop_all();
}

TEST_F(CorePlaceTest, ClosedWhileItMovesItWaitsForWhatIsUnderWay) {
  open_in("north");
  refuse("north");
  answer_offers({"south"});
  effects.take<Teardown>();
  on_close(state, effects, now);
  effects.drop_events();
  effects.expect_nothing_else();
  advance_to(state.tell_wait_at);
  EXPECT_THAT(effects.take_event<Notice>().message,
              HasSubstr("to remove what the pool has used in the previous region, 300 s at most"));
  on_torn_down(state, effects, now, {});
  EXPECT_EQ(end_of_opening().error().kind, ErrorKind::cancelled);
  EXPECT_EQ(state.phase, Phase::closed);
}

TEST_F(CorePlaceTest, WhatWillNotBeGivenBackEndsTheOpening) {
  open_in("north");
  refuse("north");
  answer_offers({"south"});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, fail(ErrorKind::unavailable, "still used"));
  effects.drop_events();
  const Status status = end_of_opening();
  EXPECT_THAT(status.error().message, HasSubstr("north is sold out; still used"));
}

}  // namespace
}  // namespace skyward::engine
