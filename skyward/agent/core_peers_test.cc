// What an agent tells its processes of the pool's machines after it has started them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "skyward/agent/quiet_effects_fixture.h"
#include "skyward/spec/topology.h"

namespace skyward::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::Pair;

class CorePeersTest : public testing::Test, protected QuietEffects {
 protected:
  void TearDown() override { sanity_check(state); }

  void tell_instance_info(SlotId slot, const std::string& compute_pool) override {
    told.emplace_back(slot.value, compute_pool);
  }

  static InstanceInfo info(int worker) {
    return {.node = 1,
            .worker = worker,
            .total_nodes = 3,
            .workers_per_node = 2,
            .head_addr = "10.0.0.1",
            .job_id = "1",
            .peers = {{0, "10.0.0.1"}, {1, "10.0.0.2"}, {2, "10.0.0.3"}}};
  }
  static InstanceInfo info_now(int worker) {
    InstanceInfo moved = info(worker);
    moved.head_addr = moved.peers[0].private_ip = "10.0.0.9";
    return moved;
  }

  void configure(const std::string& bootstrap = "") {
    wire::Configure message;
    message.worker_command = {"python", "worker.py"};
    for (int worker = 0; worker < 2; ++worker) {
      message.workers.push_back({{{"A", "1"}, {"COMPUTE_POOL", to_json(info(worker))}}});
    }
    message.bootstrap = bootstrap;
    on_message(state, *this, message, now);
  }
  void hello(std::uint32_t slot) { on_worker_hello(state, *this, SlotId{slot}, now); }
  void move_head() {
    on_message(state, *this, wire::PeerMoved{.node = NodeId{0}, .address = "10.0.0.9"}, now);
  }
  std::string environment_of(std::uint32_t worker) {
    for (const auto& [name, value] : worker_environment(state, worker)) {
      if (name == kInstanceInfoVariable) return value;
    }
    return "";
  }

  AgentState state;
  Time now = Time{} + 1h;
  std::vector<std::pair<std::uint32_t, std::string>> told;
};

TEST_F(CorePeersTest, TellsTheProcessesThatRun) {
  configure();
  on_accelerators(state, *this, {}, now);
  hello(0);
  hello(1);
  move_head();
  EXPECT_THAT(told, ElementsAre(Pair(0, to_json(info_now(0))), Pair(1, to_json(info_now(1)))));
  told.clear();
  move_head();  // nothing new
  EXPECT_THAT(told, ElementsAre());
}

TEST_F(CorePeersTest, TellsAProcessThatStartsWhenItHasGreeted) {
  configure();
  on_accelerators(state, *this, {}, now);
  hello(0);
  move_head();
  EXPECT_THAT(told, ElementsAre(Pair(0, to_json(info_now(0)))));
  told.clear();
  hello(1);
  EXPECT_THAT(told, ElementsAre(Pair(1, to_json(info_now(1)))));
  told.clear();
  // The next process has it from its start.
  on_worker_exit(state, *this, SlotId{1}, {.text = "exit code 0"}, now);
  EXPECT_EQ(environment_of(1), to_json(info_now(1)));
  wire::RunTask run{.task = TaskId{1}, .worker = 1};
  run.body = wire::small_buffer(SharedBytes(std::string("body")));
  on_message(state, *this, run, now);
  hello(1);
  EXPECT_THAT(told, ElementsAre());
}

TEST_F(CorePeersTest, ProcessesThatStartLaterHaveItInTheirEnvironment) {
  configure("script");
  move_head();
  on_accelerators(state, *this, {"H200"}, now);
  on_bootstrap_end(state, *this, {.ok = true}, now);
  hello(0);
  hello(1);
  EXPECT_THAT(told, ElementsAre());
  EXPECT_EQ(environment_of(0), with_accelerators(to_json(info_now(0)), {"H200"}));
}

TEST_F(CorePeersTest, DevicesAreFoundWhileProcessesStart) {
  configure();
  hello(0);
  on_accelerators(state, *this, {"H200"}, now);
  const auto found = [](const InstanceInfo& info) {
    return with_accelerators(to_json(info), {"H200"});
  };
  EXPECT_THAT(told, ElementsAre(Pair(0, found(info(0)))));
  hello(1);
  EXPECT_THAT(told, ElementsAre(Pair(0, found(info(0))), Pair(1, found(info(1)))));
  told.clear();
  move_head();  // what the node has found stays
  EXPECT_THAT(told, ElementsAre(Pair(0, found(info_now(0))), Pair(1, found(info_now(1)))));
}

TEST_F(CorePeersTest, TheNodeIsReadyWhenItsDevicesAreKnown) {
  configure();
  hello(0);
  hello(1);
  EXPECT_EQ(state.phase, AgentPhase::starting);
  on_accelerators(state, *this, {}, now);
  EXPECT_EQ(state.phase, AgentPhase::ready);
}

TEST_F(CorePeersTest, DevicesThatAreNamedLateAreToldToTheProcessesThatRun) {
  configure();
  hello(0);
  hello(1);
  on_accelerators(state, *this, {}, now, "nvidia-smi");
  EXPECT_EQ(state.phase, AgentPhase::ready);
  EXPECT_THAT(told, ElementsAre());
  on_accelerators(state, *this, {"H200"}, now);
  const auto found = [](const InstanceInfo& info) {
    return with_accelerators(to_json(info), {"H200"});
  };
  EXPECT_THAT(told, ElementsAre(Pair(0, found(info(0))), Pair(1, found(info(1)))));
  EXPECT_FALSE(state.devices_unknown);
}

TEST_F(CorePeersTest, NobodyIsToldOfDevicesThatAreFoundAfterTheEnd) {
  configure();
  hello(0);
  on_message(state, *this, wire::Shutdown{}, now);
  on_accelerators(state, *this, {"H200"}, now);
  EXPECT_THAT(told, ElementsAre());
}

}  // namespace
}  // namespace skyward::agent
