#include "skyward/engine/core_fixture.h"
#include "skyward/spec/link_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace skyward::engine {
namespace {

std::string message_name(const wire::Message& message) {
  static constexpr std::array<std::string_view, std::variant_size_v<wire::Message>> kNames = {
      "Hello",      "Configure",   "RunTask",   "CancelTask",    "RecallTasks",   "StreamCredit",
      "DropBlobs",  "Shutdown",    "Welcome",   "BootstrapStep", "Ready",         "Failed",
      "TaskResult", "StreamItem",  "Output",    "Recalled",      "MetricsSample", "Farewell",
      "BlobChunk",  "Heartbeat",   "Preempted", "FetchBlob",     "BlobFetched",   "DropFunctions",
      "RunTasks",   "TaskResults", "PeerMoved", "EndAhead"};
  return std::string(kNames[message.index()]);
}

}  // namespace

std::string to_string(const Effect& effect) {
  return std::visit(
      [](const auto& call) -> std::string {
        using T = std::remove_cvref_t<decltype(call)>;
        if constexpr (std::is_same_v<T, ListOffers>) {
          return "list_offers";
        } else if constexpr (std::is_same_v<T, Prepare>) {
          return "prepare " + call.offer.instance_type;
        } else if constexpr (std::is_same_v<T, Provision>) {
          return fmt::format("provision {} from node {}", call.count, call.first_node.value);
        } else if constexpr (std::is_same_v<T, Terminate>) {
          std::string text = "terminate";
          for (const InstanceId& id : call.instances) text += " " + id;
          return text;
        } else if constexpr (std::is_same_v<T, Teardown>) {
          return "teardown";
        } else if constexpr (std::is_same_v<T, AskCharges>) {
          return fmt::format("ask for the bills of {} machines", call.instances.size());
        } else if constexpr (std::is_same_v<T, Connect>) {
          return fmt::format("connect node {} to {}", call.node.value, call.instance.id);
        } else if constexpr (std::is_same_v<T, Disconnect>) {
          return fmt::format("disconnect node {}", call.node.value);
        } else if constexpr (std::is_same_v<T, Send>) {
          return fmt::format("send {} to node {}", message_name(call.message), call.node.value);
        } else if constexpr (std::is_same_v<T, Complete>) {
          return fmt::format("complete task {} ({})", call.task.value, call.outcome.error.message);
        } else if constexpr (std::is_same_v<T, DeliverItem>) {
          return fmt::format("deliver_item of task {}", call.task.value);
        } else if constexpr (std::is_same_v<T, RetainBlob>) {
          return fmt::format("retain_blob {}", call.blob.id.value);
        } else if constexpr (std::is_same_v<T, Emit>) {
          const auto* error = std::get_if<ErrorEvent>(&call.event);
          return fmt::format("emit {} {}", event_name(call.event), error ? error->message : "");
        } else if constexpr (std::is_same_v<T, Opened>) {
          return "opened: " + (call.status ? "ok" : call.status.error().message);
        } else {
          static_assert(std::is_same_v<T, Closed>);
          return call.status ? "closed" : "closed: " + call.status.error().message;
        }
      },
      effect);
}

void RecordingEffects::drop_events() {
  std::erase_if(calls_, [](const Effect& effect) { return std::holds_alternative<Emit>(effect); });
}

void RecordingEffects::expect_nothing_else() {
  for (const Effect& effect : calls_) ADD_FAILURE() << "not expected: " << to_string(effect);
  calls_.clear();
}

void CoreTest::TearDown() {
  effects.expect_nothing_else();
  sanity_check(state);
}

void CoreTest::make(PoolShape shape) {
  PoolSpec spec;
  spec.provider.name = "cloud";
  spec.nodes = shape.nodes;
  spec.concurrency = shape.concurrency;
  spec.timeout = shape.timeout;
  state = make_state(std::move(spec), {.job_id = "job",
                                       .heartbeat_timeout = kHeartbeatTimeout,
                                       .workers_per_node = shape.workers_per_node,
                                       .cost_interval = {}});
  wire::FunctionBody body;
  body.id.value[0] = 7;
  body.bytes = wire::small_buffer(SharedBytes(std::string("body")));
  body.name = "train";
  function = std::make_shared<const wire::FunctionBody>(std::move(body));
}

void CoreTest::open_to_provisioning(PoolShape shape) {
  make(shape);
  on_open(state, effects, now);
  Offer offer;
  offer.instance_type = "big";
  on_offers(state, effects, now, std::vector{offer});
  Cluster cluster;
  cluster.id = "cloud-1";
  cluster.region = "north";
  on_prepared(state, effects, now, cluster);
  effects.drop_all();
  EXPECT_EQ(state.phase, Phase::provisioning);
}

void CoreTest::open_to_starting(PoolShape shape) {
  open_to_provisioning(shape);
  std::vector<Instance> instances;
  for (int i = 0; i < shape.nodes; ++i) instances.push_back(machine(static_cast<unsigned>(i)));
  on_provisioned(state, effects, now, NodeId{0}, shape.nodes, instances);
  effects.drop_all();
  EXPECT_EQ(state.phase, Phase::starting);
}

void CoreTest::open_to_bootstrapping(PoolShape shape) {
  open_to_starting(shape);
  for (int i = 0; i < shape.nodes; ++i) join(static_cast<unsigned>(i));
  effects.drop_all();
}

void CoreTest::open_to_running(PoolShape shape) {
  open_to_bootstrapping(shape);
  for (int i = 0; i < shape.nodes; ++i) receive(static_cast<unsigned>(i), wire::Ready{});
  effects.drop_all();
  EXPECT_EQ(state.phase, Phase::running);
}

void CoreTest::advance() {
  const Time next = next_deadline(state);
  ASSERT_NE(next, kNever) << "the core waits for ever";
  advance_to(next);
}

void CoreTest::advance_alive() {
  const Time next = next_deadline(state);
  ASSERT_NE(next, kNever) << "the core waits for ever";
  now = std::max(now, next);
  for (const Node& node : state.nodes) {
    if (node.state == NodeState::ready) receive(node.id.value, wire::Heartbeat{});
  }
  advance_to(now);
}

void CoreTest::advance_to(Time time) {
  now = std::max(now, time);
  on_timer(state, effects, now);
  EXPECT_GT(next_deadline(state), now) << "the timer goes round in circles";
}

Instance CoreTest::machine(std::uint32_t node, int nth) {
  Instance instance;
  instance.id = fmt::format("i-{}-{}", node, nth);
  instance.private_ip = fmt::format("10.0.{}.{}", nth, node);
  return instance;
}

void CoreTest::join(std::uint32_t node) {
  NodeSetup setup;
  setup.worker_command = {"worker"};
  setup.directory = "/somewhere";
  on_joined(state, effects, now, NodeId{node}, std::move(setup));
  effects.drop_events_of<BootstrapStarting>();
}

void CoreTest::receive(std::uint32_t node, wire::Message message) {
  on_message(state, effects, now, NodeId{node}, std::move(message));
}

void CoreTest::lose(std::uint32_t node, std::string why) {
  on_node_lost(state, effects, now, NodeId{node}, {ErrorKind::lost, std::move(why), {}});
}

void CoreTest::recall(std::uint32_t node) {
  state.tasks.recall(effects, NodeId{node});
  effects.take_message<wire::RecallTasks>(NodeId{node});
}

void CoreTest::replace(std::uint32_t node, int nth) {
  on_provisioned(state, effects, now, NodeId{node}, 1, std::vector{machine(node, nth)});
  effects.drop_events();
  EXPECT_EQ(effects.take<Connect>().instance.id, machine(node, nth).id);
  join(node);
  effects.take_message<wire::Configure>(NodeId{node});
  take_peer_moved(node, machine(node, nth));
  receive(node, wire::Ready{});
  effects.drop_events();
}

void CoreTest::take_peer_moved(std::uint32_t node, const Instance& instance) {
  for (const Node& other : state.nodes) {
    const bool configured =
        other.state == NodeState::bootstrapping || other.state == NodeState::ready;
    if (!configured || other.id.value == node) continue;
    EXPECT_EQ(effects.take_message<wire::PeerMoved>(other.id),
              (wire::PeerMoved{NodeId{node}, instance.private_ip}));
  }
}

wire::Blob CoreTest::blob(std::uint64_t id) {
  return {.id = BlobId{id}, .size = 100'000, .descriptor = -1, .storage = nullptr};
}

wire::Call CoreTest::with_blobs(wire::Call call, std::initializer_list<std::uint64_t> ids) {
  for (const std::uint64_t id : ids) {
    call.arguments.buffers.push_back(wire::blob_buffer(blob(id), 0, 100'000));
  }
  return call;
}

wire::Call CoreTest::task(std::string argument) {
  wire::Call call;
  call.function = function;
  call.arguments.buffers.push_back(wire::small_buffer(SharedBytes(std::move(argument))));
  return call;
}

TaskId CoreTest::submit(wire::Call call) {
  const TaskId id{next_task++};
  on_submit(state, effects, now, id, std::move(call));
  return id;
}

TaskId CoreTest::submit_to(std::uint32_t node) { return submit_to(node, task()); }

TaskId CoreTest::submit_to(std::uint32_t node, wire::Call call) {
  const TaskId id = submit(std::move(call));
  EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{node}).task, id);
  return id;
}

std::uint32_t CoreTest::attempt_of(TaskId task) const {
  const Task* known = state.tasks.find(task);
  return known == nullptr ? 1 : known->attempt;
}

void CoreTest::answer(std::uint32_t node, TaskId task, Duration run) {
  wire::TaskResult result;
  result.task = task;
  result.attempt = attempt_of(task);
  result.run_ns = static_cast<std::uint64_t>(run.count());
  receive(node, std::move(result));
}

void CoreTest::answer_with(std::uint32_t node, TaskId task, wire::TaskStatus status,
                           std::vector<BlobId> retained) {
  wire::TaskResult result;
  result.task = task;
  result.attempt = attempt_of(task);
  result.status = status;
  result.detail = "the detail";
  result.retained = std::move(retained);
  receive(node, std::move(result));
}

wire::Outcome CoreTest::take_outcome(TaskId task) {
  Complete complete = effects.take<Complete>();
  EXPECT_EQ(complete.task, task);
  return std::move(complete.outcome);
}

void CoreTest::complete(std::uint32_t node, TaskId task, Duration run) {
  answer(node, task, run);
  take_outcome(task);
}

void CoreTest::run_on(std::uint32_t node, Duration run) { complete(node, submit_to(node), run); }

void CoreTest::run_far_on(std::uint32_t node, Duration run, Duration way) {
  const TaskId id = submit_to(node);
  now += way + run;
  complete(node, id, run);
}

void CoreTest::finish_closing(std::vector<InstanceId> instances) {
  EXPECT_EQ(effects.take<Terminate>().instances, instances);
  effects.drop_events();
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
}

}  // namespace skyward::engine
