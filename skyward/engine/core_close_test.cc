// Closing in every phase, and machines that do not go.

#include <fmt/format.h>

#include "skyward/engine/core_fixture.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class CoreCloseTest : public CoreTest {
 protected:
  // Up to the teardown of a pool with one machine, whose end was refused each time.
  void close_with_a_machine_that_stays() {
    on_close(state, effects, now);
    effects.drop_all();
    lose(0);
    while (state.phase == Phase::terminating) {
      effects.drop_all();
      on_terminated(state, effects, now, kRefused);
      if (state.phase == Phase::terminating) advance_to(state.releases.again_at());
    }
    effects.drop_events();
    effects.take<Teardown>();
  }
};

TEST_F(CoreCloseTest, ClosedWhileOffersAreListed) {
  make();
  on_open(state, effects, now);
  effects.drop_all();
  on_close(state, effects, now);
  effects.take_event<PoolStopping>();
  effects.take<Teardown>();
  on_offers(state, effects, now, std::vector<Offer>(1));
  effects.expect_nothing_else();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  EXPECT_EQ(effects.take<Opened>().status.error().kind, ErrorKind::cancelled);
  effects.take<Closed>();
}

TEST_F(CoreCloseTest, ClosedWhilePreparing) {
  make();
  on_open(state, effects, now);
  on_offers(state, effects, now, std::vector<Offer>(1));
  effects.drop_all();
  on_close(state, effects, now);
  effects.drop_events();
  effects.take<Teardown>();  // runs after prepare(), and removes what that makes
  on_prepared(state, effects, now, Cluster{});
  effects.expect_nothing_else();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  EXPECT_FALSE(effects.take<Opened>().status);
  effects.take<Closed>();
}

TEST_F(CoreCloseTest, ClosedWhileProvisioning) {
  open_to_provisioning({.nodes = 2});
  on_close(state, effects, now);
  effects.take_event<PoolStopping>();
  EXPECT_FALSE(effects.launching);
  effects.expect_nothing_else();  // what is being launched must be waited for
  on_provisioned(state, effects, now, kFirst, 2, std::vector{machine(0), machine(1)});
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1", "i-1-1"));
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  const auto stopped = effects.take_event<PoolStopped>();
  ASSERT_EQ(stopped.nodes.size(), 2U);
  EXPECT_EQ(stopped.nodes[1].node, 1);
  EXPECT_EQ(stopped.nodes[1].instance_id, "i-1-1");
  EXPECT_FALSE(effects.take<Opened>().status);
  effects.take<Closed>();
}

TEST_F(CoreCloseTest, ClosedWhileProvisioningThatFails) {
  open_to_provisioning({.nodes = 2});
  on_close(state, effects, now);
  effects.drop_events();
  on_provisioned(state, effects, now, kFirst, 2, kRefused);
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  EXPECT_FALSE(effects.take<Opened>().status);
  effects.take<Closed>();
}

TEST_F(CoreCloseTest, ClosedWhileStarting) {
  open_to_starting({.nodes = 3});
  join(1);
  join(2);
  receive(2, wire::Ready{});
  effects.drop_all();
  on_close(state, effects, now);
  effects.drop_events();
  EXPECT_EQ(effects.take<Disconnect>().node, kFirst);
  effects.take_message<wire::Shutdown>(kSecond);
  effects.take_message<wire::Shutdown>(NodeId{2});
  join(0);                    // too late
  receive(1, wire::Ready{});  // too late
  effects.expect_nothing_else();
  lose(1);
  lose(2);
  finish_closing({"i-0-1", "i-1-1", "i-2-1"});
  EXPECT_FALSE(effects.take<Opened>().status);
  effects.take<Closed>();
}

TEST_F(CoreCloseTest, ClosedWhileANodeIsReplaced) {
  open_to_running({.nodes = 2});
  lose(0);
  effects.drop_all();
  on_close(state, effects, now);
  effects.drop_events();
  effects.take_message<wire::Shutdown>(kSecond);
  lose(1);
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1-1"))
      << "a launch may take minutes to end";
  effects.expect_nothing_else();
  on_terminated(state, effects, now, {});  // of the lost one
  on_terminated(state, effects, now, {});
  effects.expect_nothing_else();
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  finish_closing({"i-0-2"});
  effects.take<Closed>();
}

TEST_F(CoreCloseTest, ClosedAfterAReplacementWasRefused) {
  open_to_running({.nodes = 1});
  lose(0);
  effects.drop_all();
  on_provisioned(state, effects, now, kFirst, 1, kRefused);
  effects.drop_events();
  on_close(state, effects, now);
  effects.drop_events();
  effects.expect_nothing_else();  // the lost one is being terminated
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  effects.take<Closed>();
}

TEST_F(CoreCloseTest, MachineThatWouldNotGoIsTriedAgain) {
  open_to_running({.nodes = 1});
  lose(0);
  effects.drop_events();
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1"));
  effects.take<Provision>();
  on_terminated(state, effects, now, kRefused);
  effects.take_event<ErrorEvent>();
  replace(0, 2);
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1", "i-0-2"));
  on_terminated(state, effects, now, kRefused);
  effects.take_event<ErrorEvent>();
  effects.expect_nothing_else();
  advance_to(now + 1s);
  finish_closing({"i-0-1", "i-0-2"});
  EXPECT_TRUE(effects.take<Closed>().status);
}

TEST_F(CoreCloseTest, AnOpenPoolGoesOnAskingForTheEndOfALostMachine) {
  open_to_running({.nodes = 2});
  lose(0);
  effects.drop_events();
  effects.take<Terminate>();
  effects.take<Provision>();
  for (const Duration pause : {1s, 4s, 16s, 60s, 60s}) {
    const Time refused = now;
    on_terminated(state, effects, now, kRefused);
    EXPECT_THAT(effects.take_event<ErrorEvent>().message,
                HasSubstr(fmt::format("retrying in {:g} s", seconds(pause))));
    EXPECT_EQ(state.releases.again_at(), refused + pause);
    while (state.releases.requests() == 0) advance_alive();
    EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1"));
  }
  on_terminated(state, effects, now, {});
  EXPECT_EQ(state.releases.again_at(), kNever);
  lose(1);
  effects.drop_all();
  on_terminated(state, effects, now, kRefused);
  EXPECT_EQ(state.releases.again_at(), now + 1s) << "of another machine";
  effects.drop_all();
}

TEST_F(CoreCloseTest, MachineThatNeverGoesIsNamedAndTheRestIsRemoved) {
  open_to_running({.nodes = 1});
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  const Time began = now;
  int tries = 0;
  while (state.phase == Phase::terminating && tries < 100) {
    EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1"));
    ++tries;
    on_terminated(state, effects, now, kRefused);
    EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("i-0-1"));
    if (state.phase == Phase::terminating) advance_to(state.releases.again_at());
  }
  EXPECT_EQ(tries, 5);
  EXPECT_EQ(now, began + 81s);
  effects.take<Teardown>();
  on_torn_down(state, effects, now, kRefused);
  effects.take_event<ErrorEvent>();
  effects.take_event<PoolStopped>();
  const Status left = effects.take<Closed>().status;
  ASSERT_FALSE(left);
  EXPECT_THAT(left.error().message, AllOf(HasSubstr("i-0-1"), HasSubstr("the cloud says no")));
}

TEST_F(CoreCloseTest, WhatIsLeftHereCostsNothing) {
  open_to_running({.nodes = 1});
  state.spec.provider.name = "local";
  close_with_a_machine_that_stays();
  on_torn_down(state, effects, now, kRefused);
  effects.drop_events();
  const Status left = effects.take<Closed>().status;
  ASSERT_FALSE(left);
  EXPECT_THAT(left.error().message, HasSubstr("did not close: the cloud says no"));
  EXPECT_THAT(left.error().hint, Not(HasSubstr("gc")));
}

TEST_F(CoreCloseTest, WhatTearingDownEndedIsNotLeft) {
  open_to_running({.nodes = 1});
  close_with_a_machine_that_stays();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  EXPECT_TRUE(effects.take<Closed>().status);
}

TEST_F(CoreCloseTest, WhereOnlySharedResourcesAreLeftNoMachineIsSaidToBe) {
  open_to_running({.nodes = 1});
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  effects.take<Terminate>();
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, kRefused);
  EXPECT_EQ(effects.take_event<ErrorEvent>().message, "the cloud says no");
  effects.take_event<PoolStopped>();
  EXPECT_TRUE(effects.take<Closed>().status);
}

}  // namespace
}  // namespace skyward::engine
