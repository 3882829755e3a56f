// Agents that say anything at any time. Whatever valid messages come, in whatever order, with
// whatever ids, counts and attempts: the core loses the node and never itself, every task is
// answered once, and the pool closes. Seeded, so that a failing sequence can be run again.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "skyward/engine/core.h"
#include "skyward/engine/node_loads.h"
#include "skyward/spec/link_limits.h"

namespace skyward::engine {
namespace {

constexpr std::uint64_t kSequences = 3000;
constexpr int kSteps = 120;
constexpr int kStepsToClose = 2000;
// What an agent says by chance is rarely near enough to the truth to get far: so often it is
// honest.
constexpr double kHonest = 0.6;

class Sequence final : private EngineEffects {
 public:
  explicit Sequence(std::uint64_t seed) : random_(seed) {
    PoolSpec spec;
    spec.provider.name = "test";
    spec.nodes = between(1, 3);
    spec.concurrency = between(1, 4);
    spec.budget = chance(0.2) ? std::optional(1.0) : std::nullopt;
    Options options;
    options.job_id = "job";
    options.heartbeat_timeout = 10s;
    options.workers_per_node = static_cast<std::uint32_t>(between(1, 2));
    options.max_tasks_given = static_cast<std::uint32_t>(between(1, 20));
    options.peer_key = chance(0.5) ? "key" : "";
    if (chance(0.5)) options.lease = 60s;
    state_ = make_state(std::move(spec), std::move(options));
    wire::FunctionBody function;
    function.id.value[0] = 1;
    function.name = "f";
    function.bytes = wire::small_buffer(SharedBytes(std::string("body")));
    function_ = std::make_shared<const wire::FunctionBody>(std::move(function));
  }

  void run() {
    on_open(state_, *this, now_);
    for (int step = 0; step < kSteps; ++step) {
      one_step();
      sanity_check(state_);
    }
    on_close(state_, *this, now_);
    for (int step = 0; step < kStepsToClose && !closed_; ++step) {
      if (chance(0.5) && next_deadline(state_) != kNever) {
        now_ = std::max(now_, next_deadline(state_));
        on_timer(state_, *this, now_);
      } else if (!answer_one()) {
        hostile_word();
      }
      sanity_check(state_);
    }
    EXPECT_TRUE(closed_) << "in phase " << name(state_.phase);
    EXPECT_EQ(answered_, submitted_);
  }
  int lost() const { return lost_; }
  int answered() const { return static_cast<int>(answered_.size()); }

 private:
  // ---- chance
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  template <typename T>
  const T& any(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<int>(from.size()) - 1))];
  }
  // Of all tasks there ever were, or of none.
  TaskId any_task() { return TaskId{static_cast<std::uint64_t>(between(0, next_task_ + 1))}; }
  NodeId any_node() {
    return NodeId{
        static_cast<std::uint32_t>(between(0, static_cast<int>(state_.nodes.size()) - 1))};
  }

  // ---- what happens
  void one_step() {
    const int what = between(0, 9);
    if (what < 3 && answer_one()) return;
    if (what < 4) return submit();
    if (what == 4) return on_cancel(state_, *this, now_, any_task());
    if (what == 5) return on_item_taken(state_, *this, any_task(), 1);
    if (what == 6) {
      now_ += std::chrono::milliseconds(between(0, 3000));
      return on_timer(state_, *this, now_);
    }
    if (chance(kHonest) && honest_word()) return;
    hostile_word();
  }

  bool answer_one() {
    if (todo_.empty()) return false;
    const auto next = std::move(todo_.front());
    todo_.pop_front();
    next();
    return true;
  }

  void submit() {
    const TaskId id{static_cast<std::uint64_t>(next_task_++)};
    wire::Call call;
    call.function = function_;
    call.arguments.buffers.push_back(wire::small_buffer(SharedBytes(std::string("x"))));
    if (chance(0.3)) {
      const BlobId name{static_cast<std::uint64_t>(between(1, 4))};
      wire::Blob blob{.id = name, .size = kMinSpreadBytes, .descriptor = -1, .storage = nullptr};
      blob.content[0] = static_cast<std::uint8_t>(name.value);
      call.arguments.buffers.push_back(wire::blob_buffer(blob, 0, blob.size));
    }
    if (chance(0.3)) call.options.node = any_node();
    if (chance(0.3)) call.options.stream_window = static_cast<std::uint32_t>(between(1, 3));
    if (chance(0.3)) call.options.group = call.options.stream_window > 0;
    submitted_.insert(id);
    on_submit(state_, *this, now_, id, std::move(call));
  }

  void hear(NodeId node, wire::Message message) {
    if (connected_.contains(node)) on_message(state_, *this, now_, node, std::move(message));
  }

  // What a good agent would say next.
  bool honest_word() {
    const NodeId node = any_node();
    if (!connected_.contains(node)) return false;
    if (!ready_.contains(node)) {
      ready_.insert(node);
      hear(node, wire::Ready{.peer_port = 7});
      return true;
    }
    auto& given = given_[node];
    if (given.empty()) return false;
    const auto [task, attempt] = given.front();
    given.pop_front();
    hear(node, wire::TaskResult{.task = task, .attempt = attempt, .run_ns = 1000});
    return true;
  }

  void hostile_word() { hear(any_node(), hostile_message()); }

  wire::Message hostile_message() {
    const auto attempt = static_cast<std::uint32_t>(between(0, 3));
    switch (between(0, 13)) {
      case 0:
        return wire::TaskResult{.task = any_task(),
                                .attempt = attempt,
                                .status = static_cast<wire::TaskStatus>(between(0, 4)),
                                .worker = static_cast<std::uint32_t>(between(0, 9)),
                                .run_ns = random_(),
                                .retained = {BlobId{static_cast<std::uint64_t>(between(0, 5))}}};
      case 1: {
        wire::Recalled recalled;
        for (int i = between(0, 5); i > 0; --i) recalled.tasks.push_back(any_task());
        return recalled;
      }
      case 2:
        return wire::StreamItem{.task = any_task(), .attempt = attempt};
      case 3:
        return wire::Ready{.peer_port = 9};
      case 4:
        return wire::Failed{.step = "any", .reason = "none"};
      case 5:
        return wire::BootstrapStep{.step = chance(0.5) ? "uv" : "no such step"};
      case 6: {
        wire::BlobFetched fetched;
        fetched.content[0] = static_cast<std::uint8_t>(between(0, 5));
        fetched.attempt = static_cast<std::uint32_t>(between(0, 6));
        fetched.end = static_cast<wire::FetchEnd>(between(0, 4));
        fetched.received = random_();
        return fetched;
      }
      case 7:
        return wire::Preempted{.left_ms = random_(), .reason = "why not"};
      case 8:
        return wire::Output{{{.task = any_task(), .worker = 99, .text = "words"}}};
      case 9:
        return wire::MetricsSample{};
      case 10:
        return wire::Heartbeat{};
      case 11:
        return wire::RunTask{.task = any_task()};
      case 12:
        return wire::Welcome{};
      default:
        return wire::Shutdown{};
    }
  }

  // ---- the world
  void list_offers() override {
    Offer offer;
    offer.instance_type = "small";
    todo_.push_back([this, offer] { on_offers(state_, *this, now_, std::vector{offer}); });
  }
  void prepare(const Offer& offer) override {
    todo_.push_back([this, offer] {
      Cluster cluster;
      cluster.id = "test-1";
      cluster.instance_type = offer.instance_type;
      on_prepared(state_, *this, now_, cluster);
    });
  }
  void provision(int count, NodeId first_node) override {
    todo_.push_back([this, count, first_node] {
      std::vector<Instance> instances;
      for (int i = 0; i < count; ++i) {
        Instance instance;
        instance.id = fmt::format("i-{}", ++machines_);
        instances.push_back(std::move(instance));
      }
      on_provisioned(state_, *this, now_, first_node, count, std::move(instances));
    });
  }
  void terminate(std::vector<InstanceId>) override {
    todo_.push_back([this] { on_terminated(state_, *this, now_, {}); });
  }
  void teardown() override {
    todo_.push_back([this] { on_torn_down(state_, *this, now_, {}); });
  }
  void stop_launching() override {}
  void ask_charges(std::vector<InstanceId>) override {
    todo_.push_back([this] { on_charges(state_, *this, now_, std::vector<Charge>{}); });
  }
  void connect(NodeId node, const Instance&) override {
    forget(node);
    todo_.push_back([this, node] {
      connected_.insert(node);
      on_joined(state_, *this, now_, node, NodeSetup{.worker_command = {"worker"}});
    });
  }
  void disconnect(NodeId node) override {
    forget(node);
    ++lost_;
  }
  void forget(NodeId node) {
    connected_.erase(node);
    ready_.erase(node);
    given_.erase(node);
  }
  void send(NodeId node, wire::Message message) override {
    if (const auto* run = std::get_if<wire::RunTask>(&message))
      given_[node].emplace_back(run->task, run->attempt);
    if (std::holds_alternative<wire::Shutdown>(message) && chance(0.8)) {
      todo_.push_back([this, node] {
        forget(node);
        on_node_lost(state_, *this, now_, node, {ErrorKind::lost, "it ended", {}});
      });
    }
  }
  void complete(TaskId task, wire::Outcome) override {
    EXPECT_TRUE(answered_.insert(task).second) << "task " << task.value << " is answered twice";
  }
  void deliver_item(TaskId, wire::Payload) override {}
  void retain_blob(const wire::Blob&) override {}
  void emit(Event) override {}
  void opened(Status) override {}
  void closed(Status) override { closed_ = true; }

  std::mt19937_64 random_;
  EngineState state_;
  Time now_ = Time{} + 1h;
  std::shared_ptr<const wire::FunctionBody> function_;
  std::deque<std::function<void()>> todo_;  // answers of the world, in order
  std::set<NodeId> connected_;
  std::set<NodeId> ready_;
  std::map<NodeId, std::deque<std::pair<TaskId, std::uint32_t>>> given_;
  std::set<TaskId> submitted_;
  std::set<TaskId> answered_;
  int next_task_ = 1;
  int machines_ = 0;
  int lost_ = 0;
  bool closed_ = false;
};

TEST(HostileAgent, NoRunTakesCenturies) {
  Loads loads;
  loads.note_run({.run_ns = UINT64_MAX});
  EXPECT_EQ(loads.mean_run(), Duration{wire::kMaxRunNs});
}

TEST(HostileAgent, CostsItsNodeAndNothingElse) {
  int lost = 0;
  int answered = 0;
  for (std::uint64_t seed = 1; seed <= kSequences; ++seed) {
    SCOPED_TRACE(seed);
    Sequence sequence(seed);
    sequence.run();
    lost += sequence.lost();
    answered += sequence.answered();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(lost, static_cast<int>(kSequences));
  EXPECT_GT(answered, static_cast<int>(kSequences));
}

}  // namespace
}  // namespace skyward::engine
