// Lost nodes and their replacements.

#include "skyward/engine/core_fixture.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

using CoreLossTest = CoreTest;

TEST_F(CoreLossTest, LostNodeIsReplacedUnderItsRank) {
  open_to_running({.nodes = 3});
  lose(1);
  EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("node 1 was lost"));
  EXPECT_EQ(effects.take_event<InstanceStopping>().instance_id, "i-1-1");
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1-1"));
  const auto provision = effects.take<Provision>();
  EXPECT_EQ(provision.count, 1);
  EXPECT_EQ(provision.first_node, kSecond);
  lose(1);  // told twice
  effects.expect_nothing_else();
  on_terminated(state, effects, now, {});

  on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, 2)});
  effects.take_event<InstanceProvisioned>();
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-1-2");
  join(1);
  const auto configure = effects.take_message<wire::Configure>(kSecond);
  EXPECT_THAT(configure.workers.front().environment.front().second, HasSubstr("10.0.2.1"));
  take_peer_moved(1, machine(1, 2));
  receive(1, wire::Ready{});
  for (int i = 0; i < 5; ++i) effects.take_event<BootstrapProgress>();
  effects.take_event<BootstrapCompleted>();
  const auto replaced = effects.take_event<InstanceReplaced>();
  EXPECT_EQ(replaced.old_instance_id, "i-1-1");
  EXPECT_EQ(replaced.new_instance_id, "i-1-2");
  EXPECT_EQ(replaced.node, 1);
  EXPECT_EQ(replaced.attempt, 1);
}

TEST_F(CoreLossTest, ReplacementThatFailsIsReplacedAndThenGivenUp) {
  open_to_running({.nodes = 2});
  lose(0);
  for (int nth = 2; nth <= 1 + static_cast<int>(kMaxNodeReplacements); ++nth) {
    effects.drop_events();
    effects.take<Terminate>();
    on_terminated(state, effects, now, {});
    if (nth > 2) {  // the previous one failed
      effects.expect_nothing_else();
      const Time due = now + (nth - 2) * kReplacementPause;
      while (now < due) advance_alive();
      EXPECT_EQ(now, due);
    }
    effects.take<Provision>();
    on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, nth)});
    effects.drop_events();
    effects.take<Connect>();
    if (nth == 2) {
      join(0);
      effects.take_message<wire::Configure>(kFirst);
      take_peer_moved(0, machine(0, 2));
      receive(0, wire::Failed{"deps", "uv", "exit code 1", {}});
      effects.take<Disconnect>();
    } else if (nth == 3) {
      lose(0, "connection refused");
    } else {
      while (state.nodes[NodeId{0}].state == NodeState::connecting) advance_alive();
      effects.take<Disconnect>();
    }
  }
  effects.take_event<ErrorEvent>();
  effects.take_event<InstanceStopping>();
  effects.take<Terminate>();
  EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("giving up on node 0"));
  on_terminated(state, effects, now, {});
  EXPECT_EQ(state.nodes[NodeId{0}].state, NodeState::gone);
  submit_to(1);  // the other one works on
}

TEST_F(CoreLossTest, AMachineThatIsSoldOutIsRequestedAgainForAWhile) {
  open_to_running({.nodes = 2});
  lose(1);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  const Time lost = now;
  const auto refuse = [this] {
    on_provisioned(state, effects, now, kSecond, 1, fail(ErrorKind::exhausted, "sold out"));
    return effects.take_event<ErrorEvent>().message;
  };
  Duration pause = kRefusalPause;
  for (int refusal = 1; refusal <= kMaxRefusals; ++refusal, pause *= 2) {
    EXPECT_THAT(refuse(), HasSubstr("no replacement for node 1 yet: sold out; retrying in "));
    effects.expect_nothing_else();
    const Time due = now + pause;
    while (now < due) advance_alive();
    EXPECT_EQ(now, due);
    effects.take<Provision>();
  }
  EXPECT_GE(now, lost + 15min);
  EXPECT_EQ(refuse(), "giving up on node 1: sold out");
  EXPECT_EQ(state.nodes[kSecond].state, NodeState::gone);
}

TEST_F(CoreLossTest, AMachineThatHasWorkedForLongIsReplacedHoweverManyCameBefore) {
  open_to_running({.nodes = 1});
  int nth = 1;
  for (int loss = 1; loss <= 2 * static_cast<int>(kMaxNodeReplacements); ++loss) {
    const Time steady = now + kSteadyTime;
    while (now < steady) advance_alive();
    lose(0);
    effects.drop_all();
    on_terminated(state, effects, now, {});
    replace(0, ++nth);
  }
  for (std::uint32_t loss = 1; loss < kMaxNodeReplacements; ++loss) {
    lose(0);
    effects.drop_all();
    on_terminated(state, effects, now, {});
    replace(0, ++nth);
  }
  lose(0);
  EXPECT_EQ(state.nodes[kFirst].state, NodeState::gone) << "these did not work for long";
  effects.drop_all();
}

const wire::Failed kRanNothing{"server", "python -m worker", "exit code 1", {"no module"}};

TEST_F(CoreLossTest, ANodeWhereNoWorkerBeginsATaskIsReplaced) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(0);
  receive(0, kRanNothing);
  EXPECT_EQ(effects.take<Disconnect>().node, kFirst);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, id);
  const std::string message = effects.take_event<ErrorEvent>().message;
  for (const char* part : {"no module", "exit code 1", "replacing it"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  effects.take_event<InstanceStopping>();
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1"));
  EXPECT_EQ(effects.take<Provision>().first_node, kFirst);
}

TEST_F(CoreLossTest, WhereNoMachineRunsATaskFewAreProvisioned) {
  constexpr std::uint32_t kNodes = 6;
  open_to_running({.nodes = kNodes});
  int replacements = 0;
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    receive(node, kRanNothing);
    replacements += state.orders[NodeId{node}].replacements;
    effects.drop_all();
    if (state.releases.requests() > 0) on_terminated(state, effects, now, {});
    effects.drop_all();
  }
  EXPECT_EQ(replacements, static_cast<int>(kMaxNodeReplacements));
  for (std::uint32_t node = 0; node < kMaxNodeReplacements; ++node) {
    EXPECT_EQ(state.nodes[NodeId{node}].state, NodeState::absent);
    replace(node, 2);
    receive(node, kRanNothing);
    EXPECT_EQ(state.nodes[NodeId{node}].state, NodeState::gone);
    effects.drop_all();
  }
  const Error error = take_outcome(submit()).error;
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_THAT(error.message, HasSubstr("could not be replaced"));
  EXPECT_THAT(error.message, HasSubstr("no module"));
}

TEST_F(CoreLossTest, KnowsTheMemoryOfTheSmallestNodeThatIsReady) {
  open_to_bootstrapping({.nodes = 3});
  EXPECT_EQ(state.nodes.least_memory(), 0U);
  receive(0, wire::Ready{.memory_bytes = 64});
  receive(1, wire::Ready{.memory_bytes = 16});
  EXPECT_EQ(state.nodes.least_memory(), 16U);
  receive(2, wire::Ready{});
  EXPECT_EQ(state.nodes.least_memory(), 0U) << "one does not say";
  lose(2, "preempted");
  EXPECT_EQ(state.nodes.least_memory(), 16U);
  lose(1, "preempted");
  EXPECT_EQ(state.nodes.least_memory(), 64U);
  effects.drop_all();
}

TEST_F(CoreLossTest, DefectiveMachinesCostHealthyNodesNoReplacement) {
  constexpr std::uint32_t kNodes = 6;
  open_to_running({.nodes = kNodes});
  for (std::uint32_t node = 1; node < kNodes; ++node) {
    receive(node, kRanNothing);
    effects.drop_all();
  }
  lose(0, "preempted");  // its task takes hours
  EXPECT_EQ(state.orders[kFirst].replacements, 1);
  effects.drop_all();
}

TEST_F(CoreLossTest, WhereTasksRunEachDefectiveMachineIsReplaced) {
  constexpr std::uint32_t kNodes = 6;
  open_to_running({.nodes = kNodes});
  for (std::uint32_t node = 1; node < kNodes; ++node) {
    const TaskId id = submit();
    effects.drop_all();
    answer(state.tasks.find(id)->node.value, id);
    effects.drop_all();
    receive(node, kRanNothing);
    EXPECT_EQ(state.orders[NodeId{node}].replacements, 1) << node;
    effects.drop_all();
  }
}

TEST_F(CoreLossTest, PoolWithoutNodesClosesAndAnswersEverythingWithTheReason) {
  open_to_running({.nodes = 2});
  lose(0, "preempted");
  lose(1, "preempted");
  effects.drop_all();
  wire::Call pinned = task();
  pinned.options.node = kFirst;
  const TaskId first = submit(pinned);
  const TaskId second = submit();
  effects.expect_nothing_else();
  on_provisioned(state, effects, now, kFirst, 1, kRefused);
  EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("giving up on node 0"));
  const Error error = take_outcome(first).error;
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_THAT(error.message, HasSubstr("the cloud says no"));
  EXPECT_EQ(take_outcome(submit(std::move(pinned))).error, error) << "of a later call, too";
  effects.expect_nothing_else();
  on_provisioned(state, effects, now, kSecond, 1, kRefused);
  effects.take_event<ErrorEvent>();
  const wire::Outcome outcome = take_outcome(second);
  EXPECT_EQ(outcome.error.kind, ErrorKind::lost);
  EXPECT_THAT(outcome.error.message, HasSubstr("the cloud says no"));
  effects.take_event<PoolStopping>();
  EXPECT_TRUE(is_closing(state.phase));
  const TaskId third = submit();
  EXPECT_EQ(take_outcome(third).error.kind, ErrorKind::lost);
  for (int machines = 0; machines < 2; ++machines) on_terminated(state, effects, now, {});
  EXPECT_EQ(state.phase, Phase::removing);
  effects.drop_all();
}

TEST_F(CoreLossTest, NodeThatCannotBeReachedIsToldApartFromOneThatIsGone) {
  open_to_running({.nodes = 1});
  const TaskId id = submit_to(0);
  const Error broken{ErrorKind::unreachable, "no route to it", {}};
  std::uint32_t machine = 1;
  for (; machine <= kMaxNodeReplacements; ++machine) {
    on_node_lost(state, effects, now, kFirst, broken);
    effects.drop_all();
    on_terminated(state, effects, now, {});
    replace(0, static_cast<int>(machine) + 1);
    effects.drop_all();
  }
  on_node_lost(state, effects, now, kFirst, broken);
  EXPECT_EQ(take_outcome(id).error.kind, ErrorKind::unreachable);
  effects.drop_all();
  EXPECT_EQ(take_outcome(submit()).error.kind, ErrorKind::unreachable);
}

// A cloud that does not answer may do so a little later; one that says no will again.
TEST_F(CoreLossTest, WhatMayPassIsRequestedAgainAndNothingElse) {
  for (const auto& [kind, again] :
       {std::pair{ErrorKind::exhausted, true}, std::pair{ErrorKind::unavailable, true},
        std::pair{ErrorKind::timeout, true}, std::pair{ErrorKind::denied, false},
        std::pair{ErrorKind::invalid, false}}) {
    open_to_running({.nodes = 2});
    lose(1);
    on_terminated(state, effects, now, {});
    on_provisioned(state, effects, now, kSecond, 1, fail(kind, "no machine"));
    EXPECT_EQ(state.nodes[kSecond].state, again ? NodeState::absent : NodeState::gone)
        << to_string(kind);
    effects.drop_all();
  }
}

TEST_F(CoreLossTest, RefusalsOfAnEarlierLossAreForgotten) {
  open_to_running({.nodes = 2});
  for (int nth = 2; nth <= 3; ++nth) {
    lose(1);
    effects.drop_all();
    on_terminated(state, effects, now, {});
    for (int refusal = 1; refusal <= kMaxRefusals; ++refusal) {
      on_provisioned(state, effects, now, kSecond, 1, fail(ErrorKind::exhausted, "sold out"));
      ASSERT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("retrying in "));
      while (state.orders.requests() == 0) advance_alive();
      effects.take<Provision>();
    }
    replace(1, nth);
  }
}

TEST_F(CoreLossTest, TheErrorOfATaskNamesTheMachineThatWasLost) {
  open_to_running({.nodes = 1});
  wire::Call call = task();
  call.options.stream_window = 4;
  const TaskId id = submit_to(0, std::move(call));
  wire::StreamItem item;
  item.task = id;
  item.attempt = 1;
  receive(0, std::move(item));
  effects.take<DeliverItem>();
  lose(0);
  const wire::Outcome lost = take_outcome(id);
  EXPECT_TRUE(lost.begun) << "it may have had effects";
  EXPECT_EQ(lost.node, 0);
  EXPECT_EQ(lost.instance_id, "i-0-1");
  effects.drop_all();
}

TEST_F(CoreLossTest, ACancelledTaskThatCannotBeginIsNotTriedElsewhere) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(0);
  on_cancel(state, effects, now, id);
  effects.take_message<wire::CancelTask>(kFirst);
  answer_with(0, id, wire::TaskStatus::not_begun);
  EXPECT_FALSE(take_outcome(id).begun);
}

// It may have had no room for it.
TEST_F(CoreLossTest, ANodeThatCouldNotBeginATaskGetsItsFunctionAgain) {
  open_to_running({.nodes = 1});
  wire::FunctionBody large = *function;
  large.bytes = wire::blob_buffer({.id = BlobId{8}, .size = 1 << 20}, 0, 1 << 20);
  function = std::make_shared<const wire::FunctionBody>(std::move(large));
  const auto sends_body = [&] { return !effects.take_message<wire::RunTask>(kFirst).body.empty(); };
  const TaskId first = submit();
  EXPECT_TRUE(sends_body());
  complete(0, first);
  const TaskId second = submit();
  EXPECT_FALSE(sends_body());
  answer_with(0, second, wire::TaskStatus::not_begun);
  EXPECT_THAT(effects.take_message<wire::DropBlobs>(kFirst).blobs, ElementsAre(BlobId{8}));
  EXPECT_FALSE(take_outcome(second).begun);
  submit();
  EXPECT_TRUE(sends_body());
}

// Nobody hears from it while this computer has no network.
TEST_F(CoreLossTest, ANodeIsNotSilentWhileThisComputerIsOffline) {
  open_to_running({.nodes = 1});
  const Time end = now + 10 * kHeartbeatTimeout;
  while (now < end) {
    now += kHeartbeatTimeout / 2;
    on_offline(state, now, kFirst);
    on_timer(state, effects, now);
  }
  EXPECT_EQ(state.nodes[kFirst].state, NodeState::ready);
}

TEST_F(CoreLossTest, TheReceiptHasTheTimeOnLostMachinesToo) {
  open_to_running({.nodes = 2});
  now += 100s;
  lose(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  replace(0, 2);
  now += 50s;
  lose(1);
  on_terminated(state, effects, now, {});
  on_provisioned(state, effects, now, kSecond, 1, kRefused);
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  on_torn_down(state, effects, now, {});
  effects.take<Teardown>();
  const auto stopped = effects.take_event<PoolStopped>();
  EXPECT_DOUBLE_EQ(stopped.nodes.at(0).up_seconds, 150);
  EXPECT_DOUBLE_EQ(stopped.nodes.at(1).up_seconds, 150);
  effects.drop_all();
}

}  // namespace
}  // namespace skyward::engine
