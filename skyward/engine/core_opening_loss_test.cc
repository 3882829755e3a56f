// What becomes of machines that are lost while the pool opens.

#include <string>

#include "skyward/engine/core_fixture.h"
#include "skyward/engine/core_loss.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class OpeningLossTest : public CoreTest {
 protected:
  void lose_with(std::uint32_t node, ErrorKind kind) {
    on_node_lost(state, effects, now, NodeId{node}, {kind, "connection reset", {}});
  }
  // The node's machine has ended, and another one is requested.
  void expect_replacement(std::uint32_t node, const InstanceId& machine) {
    EXPECT_THAT(effects.take_event<ErrorEvent>().message,
                HasSubstr("was lost: connection reset; replacing it"));
    EXPECT_EQ(effects.take_event<InstanceStopping>().instance_id, machine);
    EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre(machine));
    EXPECT_EQ(effects.take<Provision>().first_node, NodeId{node});
    on_terminated(state, effects, now, {});
  }
  void refuse(std::uint32_t node, ErrorKind kind) {
    on_provisioned(state, effects, now, NodeId{node}, 1,
                   std::unexpected(Error{kind, "no machine is left", {}}));
  }
  // The pool does not open; what it says.
  std::string failure() {
    EXPECT_TRUE(is_closing(state.phase));
    for (const Node& node : state.nodes) {
      if (node.state == NodeState::stopping) lose(node.id.value);
    }
    effects.drop_all();
    while (state.phase != Phase::removing) on_terminated(state, effects, now, {});
    effects.take<Teardown>();
    on_torn_down(state, effects, now, {});
    effects.drop_events();
    const Status opened = effects.take<Opened>().status;
    effects.take<Closed>();
    EXPECT_FALSE(opened);
    return opened ? "" : opened.error().message;
  }
};

TEST_F(OpeningLossTest, AMachineThatIsGoneIsReplaced) {
  open_to_bootstrapping({.nodes = 2});
  receive(0, wire::Ready{});
  effects.drop_all();
  lose_with(1, ErrorKind::lost);
  expect_replacement(1, "i-1-1");
  on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, 2)});
  effects.drop_events();
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-1-2");
  join(1);
  effects.take_message<wire::Configure>(kSecond);
  take_peer_moved(1, machine(1, 2));
  receive(1, wire::Ready{});
  effects.drop_events();
  EXPECT_TRUE(effects.take<Opened>().status);
  EXPECT_EQ(state.phase, Phase::running);
}

TEST_F(OpeningLossTest, SoIsTheOnlyOne) {
  open_to_bootstrapping();
  lose_with(0, ErrorKind::lost);
  expect_replacement(0, "i-0-1");
  replace(0, 2);
  EXPECT_TRUE(effects.take<Opened>().status);
}

TEST_F(OpeningLossTest, ACloudsMachineThatIsNotReachedIsReplacedWhereOthersAre) {
  open_to_starting({.nodes = 2});
  join(0);
  effects.drop_all();
  lose_with(1, ErrorKind::unreachable);
  expect_replacement(1, "i-1-1");
}

TEST_F(OpeningLossTest, WhereNoneIsReachedThePoolDoesNotOpen) {
  open_to_starting({.nodes = 2});
  lose_with(1, ErrorKind::unreachable);
  EXPECT_THAT(failure(), HasSubstr("i-1-1) did not start: connection reset"));
}

TEST_F(OpeningLossTest, NorIfAHostOfTheUsersIsNotReached) {
  open_to_starting({.nodes = 2});
  state.spec.provider.name = "ssh";
  join(0);
  lose_with(1, ErrorKind::unreachable);
  EXPECT_THAT(failure(), HasSubstr("did not start: connection reset"));
}

TEST_F(OpeningLossTest, NorIfTheSetupFails) {
  open_to_bootstrapping({.nodes = 2});
  receive(1, wire::Failed{"deps", "uv", "exit code 1", {}});
  EXPECT_THAT(failure(), HasSubstr("exit code 1"));
}

TEST_F(OpeningLossTest, NorIfTheReplacementsAreLost) {
  open_to_bootstrapping({.nodes = 2});
  lose_with(1, ErrorKind::lost);
  for (int nth = 2; nth <= 1 + static_cast<int>(kMaxNodeReplacements); ++nth) {
    expect_replacement(1, machine(1, nth - 1).id);
    on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, nth)});
    effects.drop_events();
    effects.take<Connect>();
    lose_with(1, ErrorKind::unreachable);
    if (nth > static_cast<int>(kMaxNodeReplacements)) break;
    // One that failed is not followed at once.
    const Time due = now + (nth - 1) * kReplacementPause;
    while (now < due) advance_alive();
  }
  EXPECT_THAT(failure(), HasSubstr("did not start after 3 replacements: connection reset"));
}

TEST_F(OpeningLossTest, NorIfManyAreLost) {
  open_to_bootstrapping({.nodes = 8});
  for (std::uint32_t node = 0; node < 4; ++node) lose_with(node, ErrorKind::lost);
  EXPECT_EQ(state.phase, Phase::starting);
  effects.drop_all();
  lose_with(4, ErrorKind::lost);
  EXPECT_TRUE(is_closing(state.phase));
  effects.drop_all();
}

TEST_F(OpeningLossTest, NorIfAReplacementTakesTooLong) {
  open_to_bootstrapping({.nodes = 2});
  receive(0, wire::Ready{});
  effects.drop_all();
  const Time lost = now;
  lose_with(1, ErrorKind::lost);
  expect_replacement(1, "i-1-1");
  while (state.phase == Phase::starting) advance_alive();
  EXPECT_EQ(now, lost + kOpeningWithLosses);
  effects.drop_all();
  on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, 2)});
  EXPECT_THAT(failure(),
              HasSubstr("did not start after 1 replacement: connection reset; no replacement was "
                        "ready within 20 min"));
}

TEST_F(OpeningLossTest, ThatTimeIsOfNoInterestWhenTheReplacementIsReady) {
  open_to_bootstrapping({.nodes = 2});
  lose_with(1, ErrorKind::lost);
  expect_replacement(1, "i-1-1");
  replace(1, 2);
  EXPECT_EQ(state.phase, Phase::starting) << "node 0 takes long";
  effects.drop_all();
  end_opening(state, effects, now);
  EXPECT_EQ(state.phase, Phase::starting);
  receive(0, wire::Ready{});
  EXPECT_EQ(state.phase, Phase::running);
  effects.drop_all();
}

TEST_F(OpeningLossTest, AMachineThatIsPreemptedIsReplacedAtOnce) {
  open_to_bootstrapping({.nodes = 2});
  receive(1, wire::Preempted{.left_ms = 120'000, .reason = "spot"});
  effects.take_event<InstancePreempted>();
  EXPECT_EQ(effects.take<Disconnect>().node, kSecond);
  effects.drop_events();
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1-1"));
  EXPECT_EQ(effects.take<Provision>().first_node, kSecond);
}

TEST_F(OpeningLossTest, SoIsAPodThatIsGone) {
  open_to_bootstrapping({.nodes = 2});
  lose_with(1, ErrorKind::denied);
  expect_replacement(1, "i-1-1");
}

TEST_F(OpeningLossTest, NorWithoutAReplacement) {
  open_to_bootstrapping({.nodes = 2});
  lose_with(1, ErrorKind::lost);
  expect_replacement(1, "i-1-1");
  refuse(1, ErrorKind::denied);
  EXPECT_THAT(failure(),
              HasSubstr("did not start: connection reset; no replacement: no machine is left"));
}

TEST_F(OpeningLossTest, OneThatIsSoldOutIsRequestedAgainForAShortWhile) {
  open_to_bootstrapping({.nodes = 2});
  receive(0, wire::Ready{});
  effects.drop_all();
  lose_with(1, ErrorKind::lost);
  const Time lost = now;
  expect_replacement(1, "i-1-1");
  for (int i = 0; i < kMaxRefusalsAtOpening; ++i) {
    refuse(1, ErrorKind::exhausted);
    EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("retrying in"));
    const Time due = now + kRefusalPause * (1 << i);
    while (now < due) advance_alive();
    EXPECT_EQ(effects.take<Provision>().first_node, kSecond);
  }
  refuse(1, ErrorKind::exhausted);
  EXPECT_EQ(now, lost + 7 * kRefusalPause);
  EXPECT_THAT(failure(), HasSubstr("no replacement: no machine is left"));
}

TEST_F(OpeningLossTest, ClosingWaitsForTheReplacement) {
  open_to_bootstrapping({.nodes = 2});
  lose_with(1, ErrorKind::lost);
  expect_replacement(1, "i-1-1");
  on_close(state, effects, now);
  lose(0);
  effects.drop_events();
  effects.take_message<wire::Shutdown>(kFirst);
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1"));
  effects.expect_nothing_else();
  state.options.provision_timeout = 20min;
  advance_to(state.tell_wait_at);
  EXPECT_THAT(effects.take_event<Notice>().message,
              HasSubstr("to finish provisioning machines, which are then terminated; 1200 s"));
  state.options.provision_timeout = 24h * 90;
  advance_to(state.tell_wait_at);
  EXPECT_THAT(effects.take_event<Notice>().message, testing::EndsWith("which are then terminated"));
  on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, 2)});
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1-2"));
  EXPECT_THAT(failure(), HasSubstr("closed while it was opening"));
}

TEST_F(OpeningLossTest, WhatNoMachineSupportsIsNotTriedOnOthers) {
  for (const ErrorKind kind :
       {ErrorKind::unavailable, ErrorKind::invalid, ErrorKind::unsupported}) {
    open_to_bootstrapping({.nodes = 2});
    lose_with(1, kind);
    EXPECT_THAT(failure(), HasSubstr("did not start: connection reset"));
  }
}

TEST_F(OpeningLossTest, TheTimeForReplacementsRunsFromTheFirstLossOn) {
  open_to_bootstrapping({.nodes = 3});
  lose_with(0, ErrorKind::lost);
  const Time lost = now;
  advance_to(now + 1min);
  lose_with(1, ErrorKind::lost);
  EXPECT_EQ(state.opening_ends, lost + kOpeningWithLosses);
  effects.drop_all();
}

}  // namespace
}  // namespace skyward::engine
