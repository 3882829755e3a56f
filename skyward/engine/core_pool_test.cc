// Phases and nodes: opening, deadlines, losing, replacing, closing.

#include <fmt/format.h>

#include "skyward/engine/core_fixture.h"
#include "skyward/spec/link_limits.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

using CorePoolTest = CoreTest;

const std::unexpected<Error> kRefused = fail(ErrorKind::denied, "the cloud says no");

// ------------------------------------------------------------------------------------- opening

TEST_F(CorePoolTest, OpensStepByStepAndTellsOfEach) {
  make({.nodes = 2, .concurrency = 3});
  on_open(state, effects, now);
  effects.take_event<InfraCreating>();
  effects.take<ListOffers>();
  Offer cheap;
  cheap.instance_type = "cheap";
  Offer dear;
  dear.instance_type = "dear";
  on_offers(state, effects, now, std::vector{cheap, dear});
  EXPECT_EQ(effects.take<Prepare>().offer.instance_type, "cheap");
  Cluster cluster;
  cluster.region = "north";
  cluster.details = {{"head_port", "1234"}};
  on_prepared(state, effects, now, cluster);
  EXPECT_EQ(effects.take_event<InfraCreated>().region, "north");
  EXPECT_EQ(effects.take_event<InstanceLaunching>().count, 2);
  const auto provision = effects.take<Provision>();
  EXPECT_EQ(provision.count, 2);
  EXPECT_EQ(provision.first_node, kFirst);

  now += 5s;
  on_provisioned(state, effects, now, kFirst, 2, std::vector{machine(0), machine(1)});
  EXPECT_EQ(effects.take_event<InstanceProvisioned>().instance_id, "i-0-1");
  EXPECT_EQ(effects.take_event<InstanceProvisioned>().node, 1);
  EXPECT_THAT(effects.take_event<ProvisioningCompleted>().instances, ElementsAre("i-0-1", "i-1-1"));
  for (const NodeId node : {kFirst, kSecond}) {
    effects.take_event<BootstrapStarting>();
    EXPECT_EQ(effects.take<Connect>().node, node);
  }

  now += 1s;
  join(1);
  const auto configure = effects.take_message<wire::Configure>(kSecond);
  EXPECT_EQ(configure.concurrency, 3U);
  ASSERT_EQ(configure.workers.size(), 1U);
  const auto& [name, value] = configure.workers.front().environment.front();
  EXPECT_EQ(name, "COMPUTE_POOL");
  EXPECT_THAT(value, HasSubstr("10.0.1.0"));
  EXPECT_THAT(value, HasSubstr("1234"));
  join(0);
  effects.take_message<wire::Configure>(kFirst);

  now += 2s;
  receive(1, wire::BootstrapStep{"deps", 10});
  for (const std::string step : {"uv", "apt", "deps"}) {
    EXPECT_EQ(effects.take_event<BootstrapProgress>().step, step);
  }
  receive(1, wire::BootstrapStep{"deps", 10});  // told already
  now += 3s;
  receive(1, wire::Ready{});
  for (const std::string step : {"skyward", "server"}) {
    EXPECT_EQ(effects.take_event<BootstrapProgress>().step, step);
  }
  EXPECT_EQ(effects.take_event<BootstrapCompleted>(), (BootstrapCompleted{"i-1-1", 1, 0, 2, 3}));
  effects.expect_nothing_else();

  now += 5s;
  receive(0, wire::Ready{});
  for (int i = 0; i < 5; ++i) effects.take_event<BootstrapProgress>();
  effects.take_event<BootstrapCompleted>();
  const auto completed = effects.take_event<TaskPoolInitCompleted>();
  EXPECT_EQ(completed.tunnels, 2);
  EXPECT_EQ(completed.connections, 6);
  EXPECT_DOUBLE_EQ(completed.duration_seconds, 16);
  effects.take_event<ClusterSetupCompleted>();
  effects.take_event<PoolStarted>();
  EXPECT_TRUE(effects.take<Opened>().status);
}

// The list of peers goes into an environment variable, which the kernel bounds.
TEST_F(CorePoolTest, ThatMachinesHaveNoNetworkIsSaidBeforeTheyAreRented) {
  for (const bool agents_talk : {false, true}) {
    make({.nodes = 2});
    state.spec.provider.name = agents_talk ? "verda" : "vastai";
    state.options.private_network = false;
    state.options.peer_key = agents_talk ? "secret" : "";
    on_open(state, effects, now);
    effects.drop_all();
    on_offers(state, effects, now, std::vector{Offer{}});
    effects.take<Prepare>();
    on_prepared(state, effects, now, Cluster{});
    effects.take_event<InfraCreated>();
    const std::string message = effects.take_event<Notice>().message;
    EXPECT_THAT(message, HasSubstr(" have no network of their own: distributed calls fail"));
    EXPECT_EQ(message.contains("large arguments go from this computer"), !agents_talk);
    effects.take_event<InstanceLaunching>();
    EXPECT_EQ(effects.take<Provision>().count, 2);
  }
}

TEST_F(CorePoolTest, NodesOfALargePoolAreNotToldOfEachOther) {
  for (const int nodes : {static_cast<int>(kMaxPeersTold), static_cast<int>(kMaxPeersTold) + 1}) {
    const bool told = nodes == static_cast<int>(kMaxPeersTold);
    open_to_starting({.nodes = nodes});
    effects.drop_all();
    join(1);
    const auto configure = effects.take_message<wire::Configure>(kSecond);
    const std::string& value = configure.workers.front().environment.front().second;
    EXPECT_EQ(value.find("\"peers\":[]") == std::string::npos, told);
    EXPECT_LT(value.size(), std::size_t{128} << 10);
    effects.drop_all();
  }
}

TEST_F(CorePoolTest, ClosesStepByStepAndTellsOfEach) {
  open_to_running({.nodes = 2});
  const TaskId task = submit_to(0);
  now += 60s;
  on_close(state, effects, now);
  effects.take_event<PoolStopping>();
  EXPECT_EQ(take_outcome(task).error.kind, ErrorKind::cancelled);
  for (const NodeId node : {kFirst, kSecond}) {
    effects.take_event<InstanceStopping>();
    EXPECT_EQ(effects.take_message<wire::Shutdown>(node).grace_ms, kCancelGrace / 1ms)
        << "what runs may clean up";
  }
  EXPECT_EQ(next_deadline(state), std::min(next_deadline(state), now + kCloseTimeout));
  answer(0, task);  // a last word, to nobody
  on_close(state, effects, now);
  lose(1);
  effects.expect_nothing_else();
  lose(0);
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1", "i-1-1"));
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  const auto stopped = effects.take_event<PoolStopped>();
  EXPECT_EQ(stopped.pool, "job");
  EXPECT_DOUBLE_EQ(stopped.total_seconds, 60);
  ASSERT_EQ(stopped.nodes.size(), 2U);
  EXPECT_DOUBLE_EQ(stopped.nodes[0].up_seconds, 60);
  EXPECT_EQ(stopped.nodes[0].tasks, 1U) << "it was cut";
  EXPECT_EQ(stopped.nodes[0].failed, 1U);
  EXPECT_DOUBLE_EQ(stopped.nodes[0].busy_seconds, 60);
  EXPECT_EQ(stopped.nodes[1].tasks, 0U);
  effects.take<Closed>();
  on_close(state, effects, now);
}

TEST_F(CorePoolTest, NodesThatDoNotEndAreCutOffAtTheDeadline) {
  open_to_running({.nodes = 2});
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  advance_to(now + kCloseTimeout);
  EXPECT_EQ(effects.take<Disconnect>().node, kSecond);
  finish_closing({"i-0-1", "i-1-1"});
  effects.take<Closed>();
}

TEST_F(CorePoolTest, ClosingSaysWhatItWaitsFor) {
  open_to_running({.nodes = 8});
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  const Time began = now;
  advance();
  EXPECT_EQ(now, began + 1500ms);
  EXPECT_EQ(effects.take_event<Notice>().message,
            "closing: waiting for nodes 1, 2, 3, 4, 5 and 2 more to stop; killing them in 8.5 s, "
            "or at once on Ctrl-C");
  for (const std::uint32_t node : {1, 2, 4, 5, 6, 7}) lose(node);
  effects.expect_nothing_else();
  state.tell_wait_at = now;
  advance();
  EXPECT_EQ(effects.take_event<Notice>().message,
            "closing: waiting for node 3 to stop; killing it in 8.5 s, or at once on Ctrl-C");
  lose(3);
  effects.take<Terminate>();
  advance_to(state.tell_wait_at);
  EXPECT_THAT(effects.take_event<Notice>().message,
              AllOf(HasSubstr("to terminate machines i-0-1, i-1-1"), HasSubstr("and 3 more")));
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  advance_to(state.tell_wait_at);
  EXPECT_THAT(effects.take_event<Notice>().message, HasSubstr("remove what the pool has used"));
  on_torn_down(state, effects, now, {});
  EXPECT_EQ(state.tell_wait_at, kNever);
  effects.drop_all();
}

TEST_F(CorePoolTest, WhoDoesNotWantToWaitCutsAgentsOffAndStillGivesMachinesBack) {
  open_to_running({.nodes = 2});
  EXPECT_FALSE(on_hurry(state, effects, now));
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  EXPECT_FALSE(on_hurry(state, effects, now)) << "what began the end came twice";
  effects.expect_nothing_else();
  now += 600ms;
  EXPECT_TRUE(on_hurry(state, effects, now));
  EXPECT_EQ(effects.take<Disconnect>().node, kSecond);
  on_hurry(state, effects, now);
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1", "i-1-1"));
  on_terminated(state, effects, now, kRefused);
  effects.drop_events();
  on_hurry(state, effects, now);
  effects.expect_nothing_else();
  advance_to(state.releases.again_at());
  effects.drop_events();
  finish_closing({"i-0-1", "i-1-1"});  // what may still cost money is asked to end again
  EXPECT_TRUE(effects.take<Closed>().status);
}

TEST_F(CorePoolTest, MachinesMayTakeTheirTimeToEnd) {
  open_to_running();
  on_close(state, effects, now);
  effects.drop_all();
  lose(0);
  effects.take<Terminate>();
  advance_to(now + 2 * kCloseTimeout);
  effects.take_event<Notice>();
  effects.expect_nothing_else();
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  advance_to(now + 2 * kCloseTimeout);
  effects.take_event<Notice>();
}

TEST_F(CorePoolTest, ClosingWhatWasNeverOpened) {
  make();
  on_close(state, effects, now);
  effects.take_event<PoolStopped>();
  EXPECT_FALSE(effects.take<Opened>().status);
  effects.take<Closed>();
}

// Everything is released, then opened(error) once, then closed().
TEST_F(CorePoolTest, NoOffer) {
  for (const bool refused : {true, false}) {
    make();
    on_open(state, effects, now);
    effects.drop_all();
    if (refused) {
      on_offers(state, effects, now, kRefused);
    } else {
      on_offers(state, effects, now, std::vector<Offer>{});
    }
    effects.take_event<ErrorEvent>();
    effects.take_event<PoolStopping>();
    effects.take<Teardown>();
    effects.expect_nothing_else();
    on_torn_down(state, effects, now, {});
    effects.take_event<PoolStopped>();
    EXPECT_EQ(effects.take<Opened>().status.error().kind,
              refused ? ErrorKind::denied : ErrorKind::exhausted);
    effects.take<Closed>();
  }
}

TEST_F(CorePoolTest, TheFirstOfferWithinTheBudgetIsTaken) {
  Offer dear{.instance_type = "dear", .price_on_demand = 3.0};
  Offer unknown{.instance_type = "unknown"};
  Offer cheap{.instance_type = "cheap", .price_on_demand = 2.0, .price_spot = 1.0};
  make({.nodes = 2});
  state.spec.max_hourly_cost = 2.5;
  on_open(state, effects, now);
  effects.drop_all();
  on_offers(state, effects, now, std::vector{unknown, dear, cheap});
  EXPECT_EQ(effects.take<Prepare>().offer.instance_type, "cheap");

  make({.nodes = 2});
  state.spec.max_hourly_cost = 2.5;
  state.spec.spot = Spot::Never();
  on_open(state, effects, now);
  effects.drop_all();
  on_offers(state, effects, now, std::vector{unknown, dear, cheap});
  EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("cost $4.00 an hour"));
  effects.drop_all();
  EXPECT_EQ(state.open_error->kind, ErrorKind::over_budget);
}

TEST_F(CorePoolTest, ReachingAMachineIsToldApartFromBringingItsAgent) {
  make();
  on_open(state, effects, now);
  on_offers(state, effects, now, std::vector<Offer>(1));
  on_prepared(state, effects, now, Cluster{});
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0)});
  now += 1s;
  const Time reached = now;
  now += 4s;
  on_joined(state, effects, now, kFirst, {.reached_at = reached});
  effects.drop_all();
  now += 2s;
  receive(0, wire::Ready{});
  for (int i = 0; i < 5; ++i) effects.take_event<BootstrapProgress>();
  EXPECT_EQ(effects.take_event<BootstrapCompleted>(), (BootstrapCompleted{"i-0-1", 1, 4, 0, 2}));
  effects.drop_all();
}

TEST_F(CorePoolTest, AcceleratorsArePreparedBeforeTheProvidersScript) {
  make();
  state.spec.accelerator = Accelerator{.name = "H100", .mig = "3g.40gb"};
  on_open(state, effects, now);
  on_offers(state, effects, now, std::vector<Offer>(1));
  on_prepared(state, effects, now, Cluster{});
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0)});
  effects.drop_all();
  on_joined(state, effects, now, kFirst, {.bootstrap = "echo provider"});
  const auto configure = effects.take_message<wire::Configure>(kFirst);
  EXPECT_THAT(configure.bootstrap, HasSubstr("wanted=(3g.40gb 3g.40gb)"));
  EXPECT_TRUE(configure.bootstrap.ends_with("echo provider"));
  effects.drop_all();
}

TEST_F(CorePoolTest, PrepareFails) {
  make();
  on_open(state, effects, now);
  on_offers(state, effects, now, std::vector<Offer>(1));
  effects.drop_all();
  on_prepared(state, effects, now, kRefused);
  effects.drop_events();
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  EXPECT_EQ(effects.take<Opened>().status.error(), kRefused.error());
  effects.take<Closed>();
}

TEST_F(CorePoolTest, ProvisionFails) {
  open_to_provisioning({.nodes = 3});
  on_provisioned(state, effects, now, kFirst, 3, kRefused);
  effects.drop_events();
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  EXPECT_EQ(effects.take<Opened>().status.error(), kRefused.error());
  effects.take<Closed>();
}

TEST_F(CorePoolTest, NodeThatCannotBeReached) {
  open_to_starting({.nodes = 2});
  join(1);
  effects.take_message<wire::Configure>(kSecond);
  on_node_lost(state, effects, now, kFirst, {ErrorKind::denied, "permission denied", {}});
  effects.drop_events();
  effects.take_message<wire::Shutdown>(kSecond);
  effects.expect_nothing_else();
  lose(1);
  finish_closing({"i-0-1", "i-1-1"});
  const Error error = effects.take<Opened>().status.error();
  EXPECT_THAT(error.message, HasSubstr("permission denied"));
  EXPECT_THAT(error.message, HasSubstr("i-0-1"));
  effects.take<Closed>();
}

TEST_F(CorePoolTest, BootstrapFails) {
  open_to_bootstrapping();
  receive(0, wire::Failed{"deps", "uv pip install nonsense", "exit code 1", {"no such package"}});
  effects.take<Disconnect>();
  effects.drop_events();
  finish_closing({"i-0-1"});
  const Error error = effects.take<Opened>().status.error();
  for (const char* part : {"deps", "uv pip install nonsense", "exit code 1", "no such package"}) {
    EXPECT_THAT(error.message, HasSubstr(part));
  }
  effects.take<Closed>();
}

TEST_F(CorePoolTest, AgentThatNeverGreets) {
  open_to_starting();
  advance();
  EXPECT_EQ(effects.take<Disconnect>().node, kFirst);
  effects.drop_events();
  finish_closing({"i-0-1"});
  EXPECT_THAT(effects.take<Opened>().status.error().message,
              HasSubstr("sent no greeting within 30 s"));
  effects.take<Closed>();
}

TEST_F(CorePoolTest, BootstrapThatNeverEnds) {
  open_to_bootstrapping();
  const Time began = now;
  while (state.phase == Phase::starting) {
    advance();
  }
  EXPECT_EQ(now, began + kBootstrapTimeout);
  effects.take<Disconnect>();
  effects.drop_events();
  finish_closing({"i-0-1"});
  EXPECT_THAT(effects.take<Opened>().status.error().message, HasSubstr("not ready within 600 s"));
  effects.take<Closed>();
}

// ------------------------------------------------------------------------- closing in every phase

TEST_F(CorePoolTest, ClosedWhileOffersAreListed) {
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

TEST_F(CorePoolTest, ClosedWhilePreparing) {
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

TEST_F(CorePoolTest, ClosedWhileProvisioning) {
  open_to_provisioning({.nodes = 2});
  on_close(state, effects, now);
  effects.take_event<PoolStopping>();
  effects.expect_nothing_else();  // what is being bought must be waited for
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

TEST_F(CorePoolTest, ClosedWhileProvisioningThatFails) {
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

TEST_F(CorePoolTest, ClosedWhileStarting) {
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

TEST_F(CorePoolTest, ClosedWhileANodeIsReplaced) {
  open_to_running({.nodes = 2});
  lose(0);
  effects.drop_all();
  on_close(state, effects, now);
  effects.drop_events();
  effects.take_message<wire::Shutdown>(kSecond);
  lose(1);
  effects.expect_nothing_else();
  on_terminated(state, effects, now, {});  // of the lost one
  effects.expect_nothing_else();
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  finish_closing({"i-0-2", "i-1-1"});
  effects.take<Closed>();
}

TEST_F(CorePoolTest, ClosedAfterAReplacementWasRefused) {
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

TEST_F(CorePoolTest, MachineThatWouldNotGoIsTriedAgain) {
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

TEST_F(CorePoolTest, AnOpenPoolGoesOnAskingForTheEndOfALostMachine) {
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
}

TEST_F(CorePoolTest, MachineThatNeverGoesIsNamedAndTheRestIsRemoved) {
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

TEST_F(CorePoolTest, WhatTearingDownEndedIsNotLeft) {
  open_to_running({.nodes = 1});
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
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  EXPECT_TRUE(effects.take<Closed>().status);
}

// -------------------------------------------------------------------------------------- deadlines

TEST_F(CorePoolTest, LifetimeEndsARunningPool) {
  open_to_running({.nodes = 1, .timeout = 100s});
  const TaskId running = submit_to(0);
  const Time end = now + 100s;
  while (state.phase == Phase::running) {
    ASSERT_LE(next_deadline(state), end);
    advance_alive();
  }
  EXPECT_EQ(now, end);
  EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("timeout of 100 s"));
  effects.take_event<PoolStopping>();
  EXPECT_EQ(take_outcome(running).error.kind, ErrorKind::timeout);
  effects.take_event<InstanceStopping>();
  effects.take_message<wire::Shutdown>(kFirst);
  lose(0);
  finish_closing({"i-0-1"});
  effects.take<Closed>();
  const wire::Outcome late = take_outcome(submit());
  EXPECT_EQ(late.error.kind, ErrorKind::timeout);
  EXPECT_THAT(late.error.message, HasSubstr("timeout of 100 s has expired"));
  EXPECT_THAT(late.error.hint, HasSubstr("ComputePool(timeout="));
}

// A cloud whose clock runs ahead terminates the machines before our own timer rings.
TEST_F(CorePoolTest, LifetimeEndsByTheCloudsClock) {
  open_to_running({.nodes = 1, .timeout = 100s});
  const TaskId running = submit_to(0);
  state.costs.clock().ahead += 100s;
  lose(0);
  EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("timeout of 100 s"));
  effects.take_event<PoolStopping>();
  EXPECT_EQ(take_outcome(running).error.kind, ErrorKind::timeout);
  effects.take_event<InstanceStopping>();
  finish_closing({"i-0-1"});
  effects.take<Closed>();
}

TEST_F(CorePoolTest, LifetimeEndsWhileThePoolOpens) {
  open_to_provisioning({.nodes = 1, .timeout = 100s});
  advance_to(now + 100s);
  effects.drop_events();
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0)});
  finish_closing({"i-0-1"});
  EXPECT_EQ(effects.take<Opened>().status.error().kind, ErrorKind::timeout);
  effects.take<Closed>();
}

TEST_F(CorePoolTest, SilentNodeIsLost) {
  open_to_running();
  const Time heard = now + 3s;
  now = heard;
  receive(0, wire::Heartbeat{});
  advance();
  effects.expect_nothing_else();
  advance();
  EXPECT_EQ(now, heard + kHeartbeatTimeout);
  effects.take<Disconnect>();
  EXPECT_THAT(effects.take_event<ErrorEvent>().message, HasSubstr("no message from it"));
  effects.take_event<InstanceStopping>();
  effects.take<Terminate>();
  effects.take<Provision>();
}

TEST_F(CorePoolTest, AgentsHaveTimeToLetTheirVolumesGo) {
  open_to_running();
  state.spec.volumes = {{.mount_path = "/data", .bucket = "b"}};
  on_close(state, effects, now);
  effects.drop_all();
  advance_to(now + kCloseTimeout);
  effects.take_event<Notice>();
  effects.expect_nothing_else();
  advance_to(now + kUnmountTimeout);
  EXPECT_EQ(effects.take<Disconnect>().node, kFirst);
  finish_closing({"i-0-1"});
  effects.take<Closed>();
}

// ------------------------------------------------------------------------------------ replacements

TEST_F(CorePoolTest, LostNodeIsReplacedUnderItsRank) {
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
  effects.take_event<BootstrapStarting>();
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

TEST_F(CorePoolTest, ReplacementThatFailsIsReplacedAndThenGivenUp) {
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

TEST_F(CorePoolTest, AMachineThatIsSoldOutIsRequestedAgainForAWhile) {
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

TEST_F(CorePoolTest, AMachineThatHasWorkedForLongIsReplacedHoweverManyCameBefore) {
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

const wire::Failed kBarren{"server", "python -m worker", "exit code 1", {"no module"}};

TEST_F(CorePoolTest, ANodeWhereNoWorkerBeginsATaskIsReplaced) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(0);
  receive(0, kBarren);
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

TEST_F(CorePoolTest, WhereNoMachineRunsATaskFewAreProvisioned) {
  constexpr std::uint32_t kNodes = 6;
  open_to_running({.nodes = kNodes});
  int replacements = 0;
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    receive(node, kBarren);
    replacements += state.orders[NodeId{node}].replacements;
    effects.drop_all();
    if (state.releases.requests() > 0) on_terminated(state, effects, now, {});
    effects.drop_all();
  }
  EXPECT_EQ(replacements, static_cast<int>(kMaxNodeReplacements));
  for (std::uint32_t node = 0; node < kMaxNodeReplacements; ++node) {
    EXPECT_EQ(state.nodes[NodeId{node}].state, NodeState::absent);
    replace(node, 2);
    receive(node, kBarren);
    EXPECT_EQ(state.nodes[NodeId{node}].state, NodeState::gone);
    effects.drop_all();
  }
  const Error error = take_outcome(submit()).error;
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_THAT(error.message, HasSubstr("could not be replaced"));
  EXPECT_THAT(error.message, HasSubstr("no module"));
}

TEST_F(CorePoolTest, KnowsTheMemoryOfTheSmallestNodeThatIsReady) {
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

TEST_F(CorePoolTest, DefectiveMachinesCostHealthyNodesNoReplacement) {
  constexpr std::uint32_t kNodes = 6;
  open_to_running({.nodes = kNodes});
  for (std::uint32_t node = 1; node < kNodes; ++node) {
    receive(node, kBarren);
    effects.drop_all();
  }
  lose(0, "preempted");  // its task takes hours
  EXPECT_EQ(state.orders[kFirst].replacements, 1);
  effects.drop_all();
}

TEST_F(CorePoolTest, WhereTasksRunEachDefectiveMachineIsReplaced) {
  constexpr std::uint32_t kNodes = 6;
  open_to_running({.nodes = kNodes});
  for (std::uint32_t node = 1; node < kNodes; ++node) {
    const TaskId id = submit();
    effects.drop_all();
    answer(state.tasks.find(id)->node.value, id);
    effects.drop_all();
    receive(node, kBarren);
    EXPECT_EQ(state.orders[NodeId{node}].replacements, 1) << node;
    effects.drop_all();
  }
}

TEST_F(CorePoolTest, PoolWithoutNodesAnswersEverythingWithTheReason) {
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
  const TaskId third = submit();
  EXPECT_EQ(take_outcome(third).error.kind, ErrorKind::lost);
}

TEST_F(CorePoolTest, NodeThatCannotBeReachedIsToldApartFromOneThatIsGone) {
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

// ---------------------------------------------------------------------------- what nodes tell

TEST_F(CorePoolTest, OutputAndMetricsBecomeEvents) {
  open_to_running();
  receive(0, wire::Output{{{.task = TaskId{5},
                            .worker = 2,
                            .stream = wire::OutputStream::err,
                            .wall_us = 1'500'000,
                            .text = "hello"},
                           {.task = {}, .text = "idle"}}});
  const auto line = effects.take_event<LogLine>();
  EXPECT_EQ(line, (LogLine{.node = 0,
                           .instance_id = "i-0-1",
                           .line = "hello",
                           .timestamp = 1.5,
                           .worker = 2,
                           .task = 5,
                           .stream = "stderr"}));
  EXPECT_EQ(effects.take_event<LogLine>().stream, "stdout");
  wire::MetricsSample sample;
  sample.cpu_percent = 12;
  sample.gpu_utilization = 99;
  receive(0, sample);
  const auto metrics = effects.take_event<Metrics>();
  EXPECT_EQ(metrics.instance_id, "i-0-1");
  EXPECT_EQ(metrics.cpu_percent, 12);
  EXPECT_EQ(metrics.gpu_utilization, 99);
}

TEST_F(CorePoolTest, WordsOfALostNodeAreNotHeard) {
  open_to_running();
  lose(0);
  effects.drop_all();
  receive(0, wire::Ready{});
  receive(0, wire::Output{{{.task = {}, .text = "last words"}}});
  receive(0, wire::Recalled{});
}

TEST_F(CorePoolTest, ReceiptsCountTasksAndTime) {
  open_to_running();
  const TaskId good = submit_to(0);
  answer(0, good, 2s);
  take_outcome(good);
  const TaskId bad = submit_to(0);
  answer_with(0, bad, wire::TaskStatus::raised);
  take_outcome(bad);
  on_close(state, effects, now);
  lose(0);
  on_terminated(state, effects, now, {});
  on_torn_down(state, effects, now, {});
  effects.drop_all();
  EXPECT_EQ(state.tasks.on(kFirst).done.tasks, 2U);
  EXPECT_EQ(state.tasks.on(kFirst).done.failed, 1U);
  EXPECT_DOUBLE_EQ(state.tasks.on(kFirst).done.busy_seconds, 2);
}

}  // namespace
}  // namespace skyward::engine
