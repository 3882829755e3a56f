// Machines that their cloud takes back while the pool works.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "skyward/engine/core_fixture.h"
#include "skyward/spec/loss.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
class CorePreemptTest : public CoreTest {
 protected:
  NodeId notify_last_machine();
  // In a cloud that does not charge for machines that it takes back in their first hour.
  void open_with_free_hour(int nodes, bool ready = true);
  void open_with_volume();
  // Node 0 has its notice, and the machine that follows has been launched.
  void preempt_first();
};

const wire::Preempted kNotice{.left_ms = 120'000, .reason = "EC2 will terminate this machine"};

void CorePreemptTest::open_with_free_hour(int nodes, bool ready) {
  make({.nodes = nodes});
  state.options.billing.free_when_taken_back = 1h;
  on_open(state, effects, now);
  on_offers(state, effects, now, std::vector{Offer{.instance_type = "big"}});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  std::vector<Instance> machines;
  for (int i = 0; i < nodes; ++i) machines.push_back(machine(static_cast<std::uint32_t>(i)));
  on_provisioned(state, effects, now, NodeId{0}, nodes, machines);
  for (int i = 0; i < nodes; ++i) join(static_cast<std::uint32_t>(i));
  for (int i = 0; ready && i < nodes; ++i) receive(static_cast<std::uint32_t>(i), wire::Ready{});
  effects.drop_all();
}

void CorePreemptTest::open_with_volume() {
  open_to_running({.nodes = 1});
  state.spec.volumes = {Volume{.mount_path = "/data", .bucket = "data"}};
}

void CorePreemptTest::preempt_first() {
  receive(0, kNotice);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
}

TEST_F(CorePreemptTest, ANoticeIsToldAndAnotherMachineLaunchedAtOnce) {
  open_to_running({.nodes = 2});
  receive(1, kNotice);
  EXPECT_EQ(effects.take_event<InstancePreempted>(),
            (InstancePreempted{"i-1-1", 1, "EC2 will terminate this machine", 120}));
  const auto bought = effects.take<Provision>();
  EXPECT_EQ(bought.count, 1);
  EXPECT_EQ(bought.first_node, NodeId{1});
  receive(1, kNotice);  // said again: nothing
}

TEST_F(CorePreemptTest, WithoutSuccessorsAnotherMachineComesOnlyWhenThisOneIsGone) {
  open_to_running({.nodes = 1});
  state.spec.prepares_successors = false;
  const TaskId waits = submit_to(0);
  receive(0, kNotice);
  effects.take_event<InstancePreempted>();
  effects.take_message<wire::RecallTasks>(NodeId{0});
  receive(0, wire::Recalled{{waits}});
  effects.expect_nothing_else();
  lose(0);
  effects.drop_events();
  effects.take<Terminate>();
  effects.take<Provision>();
}

TEST_F(CorePreemptTest, ACallForWhatRunsThereGoesThereAfterTheNotice) {
  open_to_running({.nodes = 1, .concurrency = 2});
  const TaskId running = submit_to(0);
  receive(0, kNotice);
  effects.drop_all();
  wire::Call signal = task();
  signal.options.node = NodeId{0};
  signal.options.while_preempted = true;
  const TaskId sent = submit_to(0, std::move(signal));
  receive(0, wire::Recalled{{sent}});
  EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{0}).task, sent) << "it means nothing later";
  effects.take_message<wire::RecallTasks>(NodeId{0});
  complete(0, sent);
  complete(0, running);
}

TEST_F(CorePreemptTest, NoNewTasksGoThereAndWaitingOnesComeBack) {
  open_to_running({.nodes = 2});
  wire::Call pinned = task();
  pinned.options.node = NodeId{1};
  const TaskId running = submit_to(1, pinned);
  receive(1, kNotice);
  effects.take_event<InstancePreempted>();
  EXPECT_EQ(effects.take_message<wire::RecallTasks>(NodeId{1}).count, 1U);
  effects.take<Provision>();
  receive(1, wire::Recalled{});  // it has begun
  const TaskId first = submit_to(0);
  wire::Call also_pinned = task();
  also_pinned.options.node = NodeId{1};
  submit(std::move(also_pinned));  // waits for the next machine of the node
  submit();                        // waits for node 0
  complete(0, first);
  effects.take_message<wire::RunTask>(NodeId{0});
  complete(1, running);
}

TEST_F(CorePreemptTest, TasksThatHaveNotBegunRunElsewhere) {
  open_to_running({.nodes = 2});
  const TaskId here = submit_to(0);
  const TaskId there = submit_to(1);
  receive(1, kNotice);
  effects.take_event<InstancePreempted>();
  effects.take_message<wire::RecallTasks>(NodeId{1});
  effects.take<Provision>();
  receive(1, wire::Recalled{{there}});
  complete(0, here);
  const auto run = effects.take_message<wire::RunTask>(NodeId{0});
  EXPECT_EQ(run.task, there);
  EXPECT_EQ(run.attempt, 1U) << "it had not begun";
}

TEST_F(CorePreemptTest, TheNextMachineTakesTheRankWhenTheTaskIsDone) {
  open_to_running({.nodes = 2});
  wire::Call call = task();
  call.options.node = NodeId{1};
  const TaskId running = submit_to(1, std::move(call));
  receive(1, kNotice);
  effects.drop_all();
  receive(1, wire::Recalled{});
  on_provisioned(state, effects, now, NodeId{1}, 1, std::vector{machine(1, 2)});
  EXPECT_EQ(effects.take_event<InstanceProvisioned>().instance_id, "i-1-2");
  effects.expect_nothing_else();  // the present one still works
  wire::Call waiting = task();
  waiting.options.node = NodeId{1};
  const TaskId next = submit(std::move(waiting));
  complete(1, running);
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{1});
  EXPECT_EQ(effects.take_event<InstanceStopping>().instance_id, "i-1-1");
  EXPECT_EQ(effects.take<Terminate>().instances, std::vector<InstanceId>{"i-1-1"});
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-1-2");
  on_terminated(state, effects, now, {});
  join(1);
  effects.take_message<wire::Configure>(NodeId{1});
  take_peer_moved(1, machine(1, 2));
  receive(1, wire::Ready{});
  for (int steps = 0; steps < 5; ++steps) effects.take_event<BootstrapProgress>();
  effects.take_event<BootstrapCompleted>();
  EXPECT_EQ(effects.take_event<InstanceReplaced>(), (InstanceReplaced{"i-1-1", "i-1-2", 1, 1}));
  EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{1}).task, next);
}

TEST_F(CorePreemptTest, AnIdleMachineGoesAsSoonAsTheNextOneIsThere) {
  open_to_running({.nodes = 1});
  receive(0, kNotice);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  effects.drop_events();
  effects.take<Disconnect>();
  effects.take<Terminate>();
  effects.drop_events();
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-0-2");
}

TEST_F(CorePreemptTest, AMachineThatIsGoneFirstIsReplacedByTheOneThatWasLaunched) {
  open_to_running({.nodes = 2});
  const TaskId here = submit_to(0);
  const TaskId there = submit_to(1);
  receive(1, kNotice);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{1}, 1, std::vector{machine(1, 2)});
  effects.drop_events();
  lose(1);
  effects.drop_events();
  EXPECT_EQ(effects.take<Terminate>().instances, std::vector<InstanceId>{"i-1-1"});
  effects.drop_events();
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-1-2");
  complete(0, here);
  EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{0}).task, there);
}

TEST_F(CorePreemptTest, AMachineThatIsGoneFirstWaitsForTheOneThatIsBeingLaunched) {
  open_to_running({.nodes = 1});
  receive(0, kNotice);
  effects.drop_all();
  lose(0);
  effects.drop_events();
  effects.take<Terminate>();
  effects.expect_nothing_else();  // not a second one
  replace(0, 2);
}

TEST_F(CorePreemptTest, AMachineThatStaysBeyondItsTimeCountsAsGone) {
  open_to_running({.nodes = 1});
  submit_to(0);
  const Time told = now;
  receive(0, {kNotice});
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  effects.drop_events();
  while (now < told + 2min + kPreemptionGrace) advance_alive();
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{0});
  EXPECT_NE(effects.take_event<ErrorEvent>().message.find("the cloud had announced its preemption"),
            std::string::npos);
  EXPECT_EQ(effects.take_event<InstanceStopping>().instance_id, "i-0-1");
  effects.take<Terminate>();
  effects.drop_events();
  effects.take<Connect>();
}

TEST_F(CorePreemptTest, WhatCannotBeLaunchedIsTriedAgainWhenTheMachineIsGone) {
  open_to_running({.nodes = 1});
  receive(0, kNotice);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, fail(ErrorKind::exhausted, "sold out"));
  EXPECT_NE(effects.take_event<ErrorEvent>().message.find("sold out"), std::string::npos);
  lose(0);
  effects.drop_events();
  effects.take<Terminate>();
  effects.take<Provision>();
}

// A task that has been lost with all its machines but the last, which gets a notice: its node.
NodeId CorePreemptTest::notify_last_machine() {
  submit_to(0);
  std::uint32_t node = 0;
  for (int attempt = 1; attempt < static_cast<int>(kMaxAttempts); ++attempt) {
    lose(node);
    effects.drop_all();
    on_terminated(state, effects, now, {});
    replace(node, attempt + 1);
    node = 1 - node;
  }
  receive(node, kNotice);
  effects.drop_all();
  return NodeId{node};
}

TEST_F(CorePreemptTest, TheErrorOfATaskSaysThatItsLastMachineWasPreempted) {
  open_to_running({.nodes = 2});
  lose(notify_last_machine().value, "connection reset");
  const Error error = effects.take<Complete>().outcome.error;
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_NE(error.message.find("connection reset; the cloud had announced its preemption"),
            std::string::npos);
  EXPECT_EQ(loss_of(error), (Loss{.preempted = true, .attempts = kMaxAttempts}));
  effects.drop_all();
}

TEST_F(CorePreemptTest, AMachineThatCannotBeReachedMayStillRunAfterItsNotice) {
  open_to_running({.nodes = 2});
  on_node_lost(state, effects, now, notify_last_machine(),
               {ErrorKind::unreachable, "no route", {}});
  const Error error = effects.take<Complete>().outcome.error;
  EXPECT_EQ(error.kind, ErrorKind::unreachable);
  EXPECT_EQ(loss_of(error), (Loss{.attempts = kMaxAttempts}));
  effects.drop_all();
}

TEST_F(CorePreemptTest, TheErrorOfATaskSaysThatNoMachineReplacedAPreemptedOne) {
  open_to_running({.nodes = 1});
  const TaskId id = submit_to(0);
  receive(0, kNotice);
  lose(0);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, fail(ErrorKind::denied, "forbidden"));
  EXPECT_EQ(effects.take_event<ErrorEvent>().message, "giving up on node 0: forbidden");
  effects.drop_events();
  const Error error = effects.take<Complete>().outcome.error;
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_NE(error.message.find("forbidden"), std::string::npos);
  EXPECT_EQ(loss_of(error), (Loss{.preempted = true}));
  EXPECT_EQ(take_outcome(submit()).error, error) << id.value;
  effects.drop_all();
}

TEST_F(CorePreemptTest, AMachineThatIsLostLaterWasNotPreempted) {
  open_to_running({.nodes = 1});
  receive(0, kNotice);
  lose(0);
  effects.drop_all();
  replace(0, 2);
  const TaskId id = submit_to(0);
  lose(0);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, fail(ErrorKind::denied, "forbidden"));
  effects.drop_events();
  EXPECT_EQ(loss_of(effects.take<Complete>().outcome.error), Loss{}) << id.value;
  effects.drop_all();
}

TEST_F(CorePreemptTest, ANoticeBeforeTheNodeIsReadyCountsWhenItIs) {
  open_to_running({.nodes = 1});
  lose(0);
  on_terminated(state, effects, now, {});
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  join(0);
  effects.drop_all();
  receive(0, kNotice);
  effects.take_event<InstancePreempted>();
  receive(0, wire::Ready{});
  effects.drop_events();
  EXPECT_EQ(effects.take<Provision>().first_node, NodeId{0});
  submit();  // waits for the next machine
}

TEST_F(CorePreemptTest, ClosingGivesBothMachinesBack) {
  open_to_running({.nodes = 1});
  submit_to(0);
  receive(0, kNotice);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  effects.drop_all();
  on_close(state, effects, now);
  effects.take_event<PoolStopping>();
  effects.take<Complete>();
  EXPECT_EQ(effects.take_event<InstanceStopping>().instance_id, "i-0-1");
  EXPECT_EQ(effects.take_event<InstanceStopping>().instance_id, "i-0-2");
  effects.take_message<wire::Shutdown>(NodeId{0});
  lose(0);
  finish_closing({"i-0-1", "i-0-2"});
  effects.take<Closed>();
}

TEST_F(CorePreemptTest, ClosingWaitsForTheOneThatIsBeingLaunched) {
  open_to_running({.nodes = 1});
  receive(0, kNotice);
  effects.drop_all();
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  EXPECT_THAT(effects.take<Terminate>().instances, testing::ElementsAre("i-0-1"));
  on_terminated(state, effects, now, {});
  effects.expect_nothing_else();
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  finish_closing({"i-0-2"});
  effects.take<Closed>();
}

TEST_F(CorePreemptTest, AMachineWhoseSuccessorIsRefusedWorksOn) {
  open_to_running({.nodes = 1});
  const TaskId running = submit_to(0);
  receive(0, kNotice);
  receive(0, wire::Recalled{});
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, fail(ErrorKind::denied, "forbidden"));
  EXPECT_NE(effects.take_event<ErrorEvent>().message.find("when its machine is gone"),
            std::string::npos);
  EXPECT_EQ(state.nodes[NodeId{0}].state, NodeState::ready);
  answer(0, running);
  EXPECT_EQ(take_outcome(running).status, wire::OutcomeStatus::ok);
}

TEST_F(CorePreemptTest, AMachineWhoseTasksAllComeBackGoesAtOnce) {
  open_to_running({.nodes = 1});
  const TaskId waits = submit_to(0);
  receive(0, kNotice);
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  effects.drop_all();
  receive(0, wire::Recalled{{waits}});
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{0});
  effects.drop_all();
  on_terminated(state, effects, now, {});
}

// Each notice comes when the machine has worked for long, or else right after its start.
TEST_F(CorePreemptTest, MachinesThatWorkForLongAlwaysHaveASuccessorAndOthersAFewTimes) {
  for (const bool steady : {true, false}) {
    open_to_running({.nodes = 1});
    int successors = 0;
    for (int nth = 2; nth < 8; ++nth) {
      const Time due = now + (steady ? kSteadyTime : Duration{});
      while (now < due) advance_alive();
      receive(0, kNotice);
      effects.drop_all();
      if (state.orders.requests() == 0) break;
      ++successors;
      on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, nth)});
      on_terminated(state, effects, now, {});
      join(0);
      receive(0, wire::Ready{});
      effects.drop_all();
    }
    EXPECT_EQ(successors, steady ? 6 : static_cast<int>(kMaxNodeReplacements));
  }
}

TEST_F(CorePreemptTest, ANoticeIsForAnHourAtMost) {
  open_to_running({.nodes = 1});
  const Time told = now;
  receive(0, wire::Preempted{.left_ms = ~std::uint64_t{0}, .reason = "some day"});
  EXPECT_DOUBLE_EQ(effects.take_event<InstancePreempted>().seconds_left, 3600);
  EXPECT_EQ(state.nodes[NodeId{0}].gone_at, told + 1h + kPreemptionGrace);
  effects.take<Provision>();
}

// ---- when the machine is terminated

TEST_F(CorePreemptTest, AMachineThatIsFreeIfItIsTakenBackIsLeftToItsCloud) {
  open_with_free_hour(1);
  const Time gone_at = now + 2min + kPreemptionGrace;
  preempt_first();
  effects.drop_events();
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{0});
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-0-2") << "the rank does not wait";
  effects.expect_nothing_else();
  join(0);
  receive(0, wire::Ready{});
  effects.drop_all();
  while (now < gone_at) advance_alive();
  EXPECT_EQ(now, gone_at);
  EXPECT_EQ(effects.take<Terminate>().instances, std::vector<InstanceId>{"i-0-1"});
  on_terminated(state, effects, now, {});
}

TEST_F(CorePreemptTest, AfterItsFreeTimeAMachineIsTerminatedAtOnce) {
  open_with_free_hour(1);
  const Time due = now + 58min;
  while (now < due) advance_alive();
  preempt_first();
  effects.drop_events();
  effects.take<Disconnect>();
  EXPECT_EQ(effects.take<Terminate>().instances, std::vector<InstanceId>{"i-0-1"});
  effects.take<Connect>();
}

TEST_F(CorePreemptTest, AMachineThatIsLostAfterItsNoticeIsTerminatedAtOnce) {
  open_with_free_hour(1);
  receive(0, kNotice);
  effects.drop_all();
  lose(0);
  effects.drop_events();
  EXPECT_EQ(effects.take<Terminate>().instances, std::vector<InstanceId>{"i-0-1"});
}

TEST_F(CorePreemptTest, ClosingTerminatesMachinesThatAreHeld) {
  open_with_free_hour(1);
  preempt_first();
  effects.drop_all();
  on_close(state, effects, now);
  effects.drop_events();
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{0});
  finish_closing({"i-0-1", "i-0-2"});
  effects.take<Closed>();
}

TEST_F(CorePreemptTest, ANoticeWhileThePoolOpensLeavesAFreeMachineToItsCloud) {
  open_with_free_hour(2, /*ready=*/false);
  const Time gone_at = now + 2min + kPreemptionGrace;
  receive(1, kNotice);
  effects.drop_events();
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{1});
  effects.take<Provision>();
  effects.expect_nothing_else();
  EXPECT_EQ(state.releases.next_at(), gone_at);
}

TEST_F(CorePreemptTest, AMachineWithVolumesLetsThemGoBeforeItIsTerminated) {
  open_with_volume();
  preempt_first();
  effects.drop_events();
  EXPECT_EQ(effects.take_message<wire::Shutdown>(NodeId{0}).grace_ms, kCancelGrace / 1ms);
  effects.expect_nothing_else();
  const TaskId waits = submit();
  lose(0, "it has ended");
  effects.drop_events();
  EXPECT_EQ(effects.take<Terminate>().instances, std::vector<InstanceId>{"i-0-1"});
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-0-2");
  join(0);
  effects.take_message<wire::Configure>(NodeId{0});
  receive(0, wire::Ready{});
  effects.drop_events();
  EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{0}).task, waits);
}

TEST_F(CorePreemptTest, VolumesThatAreSlowKeepAMachineForALimitedTime) {
  open_with_volume();
  preempt_first();
  effects.drop_all();
  advance_to(now + closing_time(state.spec));
  EXPECT_NE(effects.take_event<ErrorEvent>().message.find("node 0 did not unmount its volumes"),
            std::string::npos);
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{0});
  effects.drop_events();
  EXPECT_EQ(effects.take<Terminate>().instances, std::vector<InstanceId>{"i-0-1"});
  EXPECT_EQ(effects.take<Connect>().instance.id, "i-0-2");
}

TEST_F(CorePreemptTest, ClosingWhileVolumesAreLetGoWaitsForTheAgent) {
  open_with_volume();
  preempt_first();
  effects.drop_all();
  on_close(state, effects, now);
  effects.drop_events();
  effects.expect_nothing_else();  // it has been told
  lose(0);
  finish_closing({"i-0-1", "i-0-2"});
  effects.take<Closed>();
}

}  // namespace
}  // namespace skyward::engine
