#include "sim/cost.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/engine/core.h"
#include "skyward/engine/effects.h"
#include "skyward/spec/link_limits.h"

namespace skyward::sim {
namespace {

constexpr std::uint64_t kQueued = 1'000'000;
constexpr int kQueueNodes = 10;
constexpr std::size_t kTasksAhead = 20'000;    // twice the largest pool
constexpr std::uint64_t kRunTime = 1'000'000;  // ns, that the nodes say they took

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// That the program has asked for, whether the allocator has it from the system or kept it.
double heap_bytes() {
  const auto heap = ::mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
}

// Answers everything at once, on the next turn.
class Echo final : public engine::EngineEffects {
 public:
  explicit Echo(int nodes) : nodes_(nodes) {
    PoolSpec spec;
    spec.provider.name = "echo";
    spec.nodes = nodes;
    spec.collect_metrics = false;
    state_ = engine::make_state(std::move(spec),
                                {.job_id = "cost", .heartbeat_timeout = kHeartbeatTimeout});
    wire::FunctionBody function;
    function.name = "echo";
    function.bytes = wire::small_buffer(SharedBytes(std::string(500, 'x')));
    function_ = std::make_shared<const wire::FunctionBody>(std::move(function));
    arguments_.buffers.push_back(wire::small_buffer(SharedBytes(std::string(200, 'x'))));
  }

  void open() {
    engine::on_open(state_, *this, now_);
    engine::on_offers(state_, *this, now_, std::vector<Offer>(1));
    engine::on_prepared(state_, *this, now_, Cluster{});
    std::vector<Instance> instances(static_cast<std::size_t>(nodes_));
    for (std::size_t i = 0; i < instances.size(); ++i) {
      instances[i].id = fmt::format("i-{}", i);
      instances[i].private_ip = fmt::format("10.{}.{}.1", i / 256, i % 256);
    }
    engine::on_provisioned(state_, *this, now_, NodeId{0}, nodes_, std::move(instances));
    for (int i = 0; i < nodes_; ++i) {
      const NodeId node{static_cast<std::uint32_t>(i)};
      engine::on_joined(state_, *this, now_, node, {});
      engine::on_message(state_, *this, now_, node, wire::Ready{});
    }
    SKYWARD_CHECK(state_.phase == engine::Phase::running);
  }

  // Keeps as many tasks in flight and waiting, whatever the number of nodes: what grows with them
  // is then the cost of the nodes alone.
  void run(std::uint64_t tasks) {
    constexpr std::size_t ahead = kTasksAhead;
    std::uint64_t submitted = 0;
    answered_ = 0;
    while (answered_ < tasks) {
      const std::uint64_t room = std::min(tasks - submitted, ahead - (submitted - answered_));
      submit(room);
      submitted += room;
      answer();
    }
  }

  void submit(std::uint64_t tasks) {
    for (; tasks > 0; --tasks) {
      engine::on_submit(state_, *this, now_, TaskId{++next_task_},
                        {.function = function_, .arguments = arguments_, .options = {}});
    }
  }

  // One of the tasks that nodes have.
  void answer() {
    SKYWARD_CHECK(!answers_.empty());
    const auto [node, task, attempt] = answers_.front();
    answers_.pop_front();
    wire::TaskResult result;
    result.task = task;
    result.attempt = attempt;
    result.run_ns = kRunTime;
    engine::on_message(state_, *this, now_, node, std::move(result));
  }
  bool has_answers() const { return !answers_.empty(); }

  void list_offers() override {}
  void prepare(const Offer&) override {}
  void provision(int, NodeId) override {}
  void terminate(std::vector<InstanceId>) override {}
  void teardown() override {}
  void stop_launching() override {}
  void ask_charges(std::vector<InstanceId>) override {}
  void connect(NodeId, const Instance&) override {}
  void disconnect(NodeId) override {}
  void send(NodeId node, wire::Message message) override {
    const auto* run = std::get_if<wire::RunTask>(&message);
    if (run != nullptr) answers_.push_back({node, run->task, run->attempt});
  }
  void complete(TaskId, wire::Outcome outcome) override {
    SKYWARD_CHECK(outcome.status == wire::OutcomeStatus::ok);
    ++answered_;
  }
  void deliver_item(TaskId, wire::Payload) override {}
  void retain_blob(const wire::Blob&) override {}
  void emit(Event) override {}
  void opened(Status) override {}
  void closed(Status) override {}

 private:
  int nodes_;
  Time now_ = Time{} + std::chrono::hours(1);
  engine::EngineState state_;
  std::shared_ptr<const wire::FunctionBody> function_;
  wire::Payload arguments_;
  // Those to come. Small: of a large pool there are many, and the engine's cost is measured.
  struct Answer {
    NodeId node;
    TaskId task;
    std::uint32_t attempt;
  };
  std::deque<Answer> answers_;
  std::uint64_t next_task_ = 0;
  std::uint64_t answered_ = 0;
};

std::string pool_cost(int nodes, std::uint64_t tasks) {
  const double before = heap_bytes();
  const auto echo = std::make_unique<Echo>(nodes);
  const double start = cpu_seconds();
  echo->open();
  const double opened = cpu_seconds();
  echo->run(tasks / 10);  // warm
  const double warm_bytes = heap_bytes();
  const double warm = cpu_seconds();
  echo->run(tasks);
  const double end = cpu_seconds();
  return fmt::format(
      "{{\"nodes\": {}, \"open_seconds\": {:.3f}, \"tasks\": {}, \"us_per_task\": {:.3f}, "
      "\"bytes_per_node\": {:.0f}, \"grown_bytes\": {:.0f}}}",
      nodes, opened - start, tasks, (end - warm) / static_cast<double>(tasks) * 1e6,
      (warm_bytes - before) / nodes, heap_bytes() - warm_bytes);
}

std::string queue_cost() {
  const auto echo = std::make_unique<Echo>(kQueueNodes);
  echo->open();
  echo->run(kQueued / 10);  // warm
  const double before = heap_bytes();
  const double start = cpu_seconds();
  echo->submit(kQueued);
  const double accepted = cpu_seconds();
  const double full = heap_bytes();
  while (echo->has_answers()) echo->answer();
  return fmt::format(
      "{{\"tasks\": {}, \"accept_seconds\": {:.3f}, \"bytes_per_task\": {:.0f}, "
      "\"left_bytes\": {:.0f}}}",
      kQueued, accepted - start, (full - before) / static_cast<double>(kQueued),
      heap_bytes() - before);
}

}  // namespace

std::string cost_report(std::uint64_t tasks) {
  std::string pools;
  for (const int nodes : {10, 100, 1'000, 10'000}) {
    pools += (pools.empty() ? "" : ",\n  ") + pool_cost(nodes, tasks);
  }
  return fmt::format("{{\"pools\": [\n  {}],\n \"queue\": {}}}", pools, queue_cost());
}

}  // namespace skyward::sim
