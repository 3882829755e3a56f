// Calls whose workers need each other, and what nodes are told when another one gets a new machine.

#include <string>

#include "skyward/engine/core_fixture.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class CoreTogetherTest : public CoreTest {
 protected:
  wire::Call alone(std::uint32_t node) {
    wire::Call call = task();
    call.options.node = NodeId{node};
    return call;
  }
  wire::Call together(std::uint32_t node) {
    wire::Call call = alone(node);
    call.options.worker = 0;
    call.options.together = true;
    return call;
  }
  void expect_run(std::uint32_t node, TaskId task) {
    const auto run = effects.take_message<wire::RunTask>(NodeId{node});
    EXPECT_EQ(run.task, task);
    EXPECT_EQ(run.attempt, 1U);
  }
  // The node has no machine from now on, and its next one can be launched.
  void lose_quietly(std::uint32_t node) {
    lose(node);
    effects.drop_all();
    on_terminated(state, effects, now, {});
  }
};

TEST_F(CoreTogetherTest, StartsAtOnceWhenAllNodesAreThere) {
  open_to_running({.nodes = 2});
  submit_to(0, alone(0));  // busy, but there
  effects.expect_nothing_else();
  submit_to(0, together(0));
  submit_to(1, together(1));
}

TEST_F(CoreTogetherTest, NoneStartsBeforeEveryNodeIsThere) {
  open_to_running({.nodes = 3});
  lose_quietly(1);
  const TaskId first = submit(together(0));
  const TaskId second = submit(together(1));
  const TaskId third = submit(together(2));
  effects.expect_nothing_else();
  submit_to(2, alone(2));  // others go on
  replace(1, 2);
  expect_run(0, first);
  expect_run(1, second);
  expect_run(2, third);
}

TEST_F(CoreTogetherTest, AllNodesKnowTheNewAddressBeforeTheyStart) {
  open_to_running({.nodes = 3});
  lose_quietly(0);
  lose_quietly(2);
  const TaskId task = submit(together(1));
  on_provisioned(state, effects, now, NodeId{2}, 1, std::vector{machine(2, 2)});
  effects.drop_all();
  join(2);
  effects.take_message<wire::Configure>(NodeId{2});  // where node 0 was
  take_peer_moved(2, machine(2, 2));
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  effects.drop_all();
  join(0);
  effects.take_message<wire::Configure>(NodeId{0});
  take_peer_moved(0, machine(0, 2));  // node 2, too, though it is not ready
  receive(0, wire::Ready{});
  effects.drop_all();
  receive(2, wire::Ready{});
  effects.drop_events();
  expect_run(1, task);
}

TEST_F(CoreTogetherTest, InALargePoolOnlyTheHeadsAddressIsTold) {
  const int nodes = static_cast<int>(kMaxPeersTold) + 1;
  open_to_running({.nodes = nodes});
  for (const std::uint32_t node : {1U, 0U}) {
    lose_quietly(node);
    on_provisioned(state, effects, now, NodeId{node}, 1, std::vector{machine(node, 2)});
    effects.drop_all();
    join(node);
    effects.take_message<wire::Configure>(NodeId{node});
    if (node == 0) take_peer_moved(0, machine(0, 2));
    effects.expect_nothing_else();
    receive(node, wire::Ready{});
    effects.drop_all();
  }
}

TEST_F(CoreTogetherTest, WithoutANetworkNobodyIsTold) {
  open_to_running({.nodes = 2});
  state.options.private_network = false;
  lose_quietly(0);
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  effects.drop_all();
  join(0);
  effects.take_message<wire::Configure>(kFirst);
  effects.expect_nothing_else();
}

TEST_F(CoreTogetherTest, TheLossOfANodeFailsItsTaskAtOnce) {
  open_to_running({.nodes = 2});
  const TaskId first = submit_to(0, together(0));
  const TaskId second = submit_to(1, together(1));
  lose(1, "power cut");
  const wire::Outcome outcome = take_outcome(second);
  EXPECT_EQ(outcome.error.kind, ErrorKind::lost);
  EXPECT_EQ(outcome.node, 1);
  EXPECT_THAT(outcome.error.message, HasSubstr("node 1 was lost"));
  EXPECT_THAT(outcome.error.message, HasSubstr("power cut"));
  effects.drop_all();
  answer(0, first);  // the caller decides about the others
  EXPECT_EQ(take_outcome(first).status, wire::OutcomeStatus::ok);
}

TEST_F(CoreTogetherTest, OnOneNodeTheyGoToTheNextMachineTogether) {
  open_to_running({.nodes = 1, .workers_per_node = 2});
  const TaskId first = submit_to(0, together(0));
  const TaskId second = submit_to(0, together(0));
  lose(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  replace(0, 2);
  for (const TaskId task : {first, second}) {
    const auto run = effects.take_message<wire::RunTask>(kFirst);
    EXPECT_EQ(run.task, task);
    EXPECT_EQ(run.attempt, 2U);
  }
}

TEST_F(CoreTogetherTest, ATaskForAnyNodeNeedsNoOther) {
  open_to_running({.nodes = 2});
  wire::Call call = task();
  call.options.together = true;
  const TaskId id = submit_to(0, std::move(call));
  lose(0);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, id);
  effects.drop_all();
}

TEST_F(CoreTogetherTest, WhatWaitsOnABusyNodeIsLostWithIt) {
  open_to_running({.nodes = 2});
  state.tasks.open({.max_tasks_given = 1, .tell_starts = false});
  submit_to(1, alone(1));
  const TaskId first = submit_to(0, together(0));
  const TaskId second = submit(together(1));
  effects.expect_nothing_else();
  lose(1);
  EXPECT_EQ(take_outcome(second).error.kind, ErrorKind::lost);
  EXPECT_NE(state.tasks.find(first), nullptr);
  effects.drop_all();
}

TEST_F(CoreTogetherTest, TheLossIsToldAlsoToACallerThatHasCancelled) {
  open_to_running({.nodes = 2});
  submit_to(0, together(0));
  const TaskId second = submit_to(1, together(1));
  on_cancel(state, effects, now, second);
  effects.take_message<wire::CancelTask>(kSecond);
  lose(1);
  EXPECT_EQ(take_outcome(second).error.kind, ErrorKind::lost);
  effects.drop_all();
}

TEST_F(CoreTogetherTest, NoneStartsOnANodeThatIsPreempted) {
  open_to_running({.nodes = 2});
  const TaskId busy = submit_to(1, alone(1));
  receive(1, wire::Preempted{.left_ms = 120'000, .reason = "terminate"});
  effects.drop_all();
  submit(together(0));
  submit(together(1));
  effects.expect_nothing_else();
  EXPECT_NE(state.tasks.find(busy), nullptr);
}

TEST_F(CoreTogetherTest, ThoseThatWaitCanBeCancelled) {
  open_to_running({.nodes = 2});
  lose_quietly(1);
  const TaskId first = submit(together(0));
  const TaskId second = submit(together(1));
  on_cancel(state, effects, now, first);
  EXPECT_EQ(take_outcome(first).error.kind, ErrorKind::cancelled);
  replace(1, 2);
  expect_run(1, second);
}

TEST_F(CoreTogetherTest, AllFailWhenANodeIsGoneForGood) {
  open_to_running({.nodes = 2});
  lose(1);
  effects.drop_all();
  const TaskId waiting = submit(together(0));
  on_provisioned(state, effects, now, kSecond, 1, fail(ErrorKind::denied, "forbidden"));
  effects.drop_events();
  EXPECT_THAT(take_outcome(waiting).error.message, HasSubstr("could not be replaced"));
  for (const std::uint32_t node : {0U, 1U}) {  // alike: none of them has run
    const TaskId late = submit(together(node));
    const wire::Outcome outcome = take_outcome(late);
    EXPECT_EQ(outcome.error.kind, ErrorKind::lost);
    EXPECT_THAT(outcome.error.message, HasSubstr("node 1"));
    EXPECT_EQ(outcome.instance_id, "");
  }
}

TEST_F(CoreTogetherTest, ThoseThatWaitEndWithThePool) {
  open_to_running({.nodes = 2});
  lose_quietly(1);
  const TaskId waiting = submit(together(0));
  on_close(state, effects, now);
  effects.drop_events();
  EXPECT_EQ(take_outcome(waiting).error.kind, ErrorKind::cancelled);
  effects.drop_all();
}

}  // namespace
}  // namespace skyward::engine
