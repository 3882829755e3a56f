// Phases and nodes: opening, closing, deadlines, and what nodes report.

#include "skyward/engine/core_fixture.h"
#include "skyward/spec/link_limits.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class CorePoolTest : public CoreTest {
 protected:
  // A machine of the pool has joined; what its agent is told, with the provider's own script.
  wire::Configure configure_after(const std::string& provider_script) {
    on_open(state, effects, now);
    on_offers(state, effects, now, std::vector<Offer>(1));
    on_prepared(state, effects, now, Cluster{});
    on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0)});
    effects.drop_all();
    on_joined(state, effects, now, kFirst, {.bootstrap = provider_script});
    effects.take_event<BootstrapStarting>();
    return effects.take_message<wire::Configure>(kFirst);
  }
};

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
  cluster.head_port = 1234;
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
    EXPECT_EQ(effects.take<Connect>().node, node);
  }

  now += 1s;
  on_joined(state, effects, now, kSecond, {});
  EXPECT_EQ(effects.take_event<BootstrapStarting>().instance_id, "i-1-1") << "it is reached";
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

// Frameworks connect there, also to themselves.
TEST_F(CorePoolTest, TheOnlyNodeOfAPoolWithoutANetworkMeetsItselfAtItsLoopbackAddress) {
  for (const bool has_network : {false, true}) {
    open_to_provisioning({.nodes = 1});
    state.options.private_network = has_network;
    Instance behind_a_router = machine(0);
    behind_a_router.private_ip = "203.0.113.7";
    on_provisioned(state, effects, now, kFirst, 1, std::vector{behind_a_router});
    effects.drop_all();
    join(0);
    const auto configure = effects.take_message<wire::Configure>(kFirst);
    const std::string& value = configure.workers.front().environment.front().second;
    const std::string address = has_network ? "203.0.113.7" : "127.0.0.1";
    EXPECT_THAT(value, HasSubstr("\"head_addr\":\"" + address + "\""));
    EXPECT_THAT(value, HasSubstr(R"("peers":[{"node":0,"private_ip":")" + address + "\"}]"));
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

TEST_F(CorePoolTest, MissingGpusAreTold) {
  struct Row {
    std::string name;
    double count;
    wire::Ready ready;
    std::string message;  // empty: nothing is told
    bool real_devices = true;
  };
  const auto gpus = [](std::size_t count) { return std::vector<std::string>(count, "H100-80GB"); };
  const Row rows[] = {
      {"H100", 8, {.accelerators = gpus(8)}, ""},
      {"H100",
       8,
       {.accelerators = gpus(7)},
       "node 0: 8xH100 was asked for, but nvidia-smi finds 7 GPUs"},
      {"H100",
       1,
       {.device_error = "Driver/library version mismatch"},
       "node 0: H100 was asked for, but nvidia-smi finds no GPU: Driver/library version mismatch"},
      {"L4", 0.5, {}, "node 0: 0.5xL4 was asked for, but nvidia-smi finds no GPU"},
      {"L4", 0.5, {.accelerators = {"L4"}}, ""},
      {"H100", 8, {.devices_unknown = true}, ""},
      {"MI300X", 8, {}, ""},
      {"H100", 8, {}, "", false},
  };
  for (const auto& [name, count, ready, message, real_devices] : rows) {
    open_to_starting();
    state.spec.accelerator = Accelerator{.name = name, .count = count};
    state.options.real_devices = real_devices;
    join(0);
    effects.drop_all();
    receive(0, ready);
    EXPECT_EQ(effects.count_events<Notice>(), message.empty() ? 0 : 1) << message;
    effects.drop_events_of<BootstrapProgress>();
    effects.take_event<BootstrapCompleted>();
    if (!message.empty()) {
      EXPECT_EQ(effects.take_event<Notice>(),
                (Notice{.message = message, .level = "warning", .instance_id = "i-0-1"}));
    }
    effects.drop_all();
  }
}

TEST_F(CorePoolTest, AcceleratorsArePreparedBeforeTheProvidersScript) {
  make();
  state.spec.accelerator = Accelerator{.name = "H100", .mig = "3g.40gb"};
  const wire::Configure configure = configure_after("echo provider");
  EXPECT_THAT(configure.bootstrap, HasSubstr("wanted=(3g.40gb 3g.40gb)"));
  EXPECT_TRUE(configure.bootstrap.ends_with("echo provider"));
  effects.drop_all();
}

// The GPUs of the computer that plays the machine are somebody's own.
TEST_F(CorePoolTest, NothingTouchesAcceleratorsThatOnlyPretendToBeThere) {
  make({.workers_per_node = 4});
  state.options.real_devices = false;
  state.spec.accelerator = Accelerator{.name = "H100", .count = 2, .mig = "3g.40gb"};
  const wire::Configure configure = configure_after("echo provider");
  EXPECT_EQ(configure.bootstrap, "echo provider");
  ASSERT_EQ(configure.workers.size(), 4U);
  EXPECT_THAT(configure.workers.back().environment,
              testing::IsSupersetOf<wire::KeyValues::value_type>({
                  {"CUDA_VISIBLE_DEVICES", "MIG-fake-1-1"},
                  {"SKYWARD_WORKER_ID", "3"},
                  {"SKYWARD_MIG_GPU", "1"},
                  {"SKYWARD_MIG_PARTITION", "1"},
              }));
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

TEST_F(CorePoolTest, MachinesThatAFailedLaunchLeavesAreTold) {
  open_to_provisioning({.nodes = 2});
  state.spec.provider.name = "aws";
  on_provisioned(state, effects, now, kFirst, 2, kRefused);
  effects.drop_events();
  effects.take<Teardown>();
  on_torn_down(state, effects, now, kRefused, {"i-1", "i-2"});
  for (int tries = 0; tries < 5; ++tries) {
    EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1", "i-2"));
    on_terminated(state, effects, now, kRefused);
    effects.drop_events();
    if (tries < 4) advance_to(state.releases.again_at());
  }
  effects.take<Teardown>();
  on_torn_down(state, effects, now, kRefused, {"i-1", "i-2"});
  effects.drop_events();
  EXPECT_FALSE(effects.take<Opened>().status);
  const Status left = effects.take<Closed>().status;
  ASSERT_FALSE(left);
  EXPECT_THAT(left.error().message, HasSubstr("i-1, i-2 of AWS"));
}

TEST_F(CorePoolTest, MachinesThatAFailedLaunchLeavesAreTerminatedLater) {
  open_to_provisioning({.nodes = 1});
  on_provisioned(state, effects, now, kFirst, 1, kRefused);
  effects.drop_events();
  effects.take<Teardown>();
  on_torn_down(state, effects, now, kRefused, {"i-1"});
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1"));
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  // The cloud does not say that it is gone: it is told, and not asked for for ever.
  on_torn_down(state, effects, now, kRefused, {"i-1"});
  effects.drop_events();
  effects.take<Opened>();
  EXPECT_FALSE(effects.take<Closed>().status);
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

// -------------------------------------------------------------------------------------- deadlines

TEST_F(CorePoolTest, ATimeoutWhileItOpensSaysWhyNodesWereNotReached) {
  open_to_starting({.nodes = 2, .timeout = 20s});
  join(0);
  on_unreached(state, NodeId{1}, {ErrorKind::lost, "no network", {}});
  on_unreached(state, NodeId{1}, {ErrorKind::lost, "cannot resolve the name gpu-3", {}});
  on_unreached(state, kFirst, {ErrorKind::lost, "too late to matter", {}});
  while (state.phase == Phase::starting) advance();
  ASSERT_TRUE(state.open_error);
  EXPECT_EQ(state.open_error->kind, ErrorKind::timeout);
  EXPECT_EQ(state.open_error->message,
            "the pool's timeout of 20 s has expired while it opened; node 1 was not reached: "
            "cannot resolve the name gpu-3; releasing its machines");
  effects.drop_all();
}

TEST_F(CorePoolTest, LifetimeEndsARunningPool) {
  open_to_running({.nodes = 1, .timeout = 100s});
  const TaskId running = submit_to(0);
  const Time end = now + 100s;
  while (state.phase == Phase::running) {
    ASSERT_LE(next_deadline(state), end);
    advance_alive();
  }
  EXPECT_EQ(now, end);
  EXPECT_TRUE(state.expired);
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
  open_to_running({.nodes = 1, .timeout = 120s});
  const TaskId running = submit_to(0);
  state.costs.clock().rate = 60;
  state.costs.clock().ahead += 120s;
  lose(0);
  EXPECT_TRUE(state.expired);
  EXPECT_THAT(effects.take_event<ErrorEvent>().message,
              HasSubstr("timeout of 120 s of the cloud's time (2 s here) has expired"));
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

// Ctrl-Z, or a laptop that sleeps.
TEST_F(CorePoolTest, WhileTheProgramIsStoppedNoNodeIsLate) {
  open_to_running({.nodes = 2});
  advance_to(now + 10 * kHeartbeatTimeout);
  effects.expect_nothing_else();
  receive(0, wire::Heartbeat{});  // it was in a buffer
  advance();
  effects.take<Disconnect>();
  const std::string lost = effects.take_event<ErrorEvent>().message;
  EXPECT_THAT(lost, AllOf(HasSubstr("node 1"), HasSubstr("no message from it")));
  effects.drop_all();
  EXPECT_EQ(state.nodes[kFirst].state, NodeState::ready);
}

TEST_F(CorePoolTest, WhileTheProgramIsStoppedNoNodeThatStartsIsLate) {
  open_to_bootstrapping();
  advance_to(now + 10 * kBootstrapTimeout);
  effects.expect_nothing_else();
  EXPECT_EQ(state.phase, Phase::starting);
  advance();
  effects.take<Disconnect>();
  effects.drop_events();
  finish_closing({"i-0-1"});
  EXPECT_THAT(effects.take<Opened>().status.error().message, HasSubstr("not ready within"));
  effects.take<Closed>();
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
  EXPECT_THAT(effects.take_event<ErrorEvent>().message,
              HasSubstr("node 0 did not unmount its volumes in time"));
  EXPECT_EQ(effects.take<Disconnect>().node, kFirst);
  finish_closing({"i-0-1"});
  effects.take<Closed>();
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
  run_on(0, 2s);
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
