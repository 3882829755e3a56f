// Workers, and an engine, that say anything at any time. User code runs inside a worker and can
// write to its socket: whatever it says there, the agent ends that process and nothing else, and
// every task from the engine is answered or returned once. Seeded, so that a failing
// sequence can be run again.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/agent/core.h"
#include "skyward/agent/quiet_effects_fixture.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

constexpr std::uint64_t kSequences = 3000;
constexpr int kSteps = 150;

class Sequence final : private QuietEffects {
 public:
  explicit Sequence(std::uint64_t seed) : random_(seed) {}

  void run() {
    wire::Configure configure;
    configure.worker_command = {"worker"};
    configure.workers.resize(static_cast<std::size_t>(between(1, 3)));
    configure.concurrency = static_cast<std::uint32_t>(between(1, 6));
    state_.max_starting = static_cast<std::uint32_t>(between(1, 4));
    on_message(state_, *this, configure, now_);
    on_accelerators(state_, *this, {}, now_);
    for (int step = 0; step < kSteps && state_.phase != AgentPhase::ended; ++step) {
      one_step();
      sanity_check(state_);
    }
    if (state_.phase == AgentPhase::ended) return;
    on_message(state_, *this, wire::Shutdown{.grace_ms = 100}, now_);
    now_ += 1s;
    on_timer(state_, *this, now_);
    while (!dying_.empty()) end_one();
    for (const SlotId slot : std::exchange(alive_, {}))
      on_worker_exit(state_, *this, slot, {.text = "exit code 0"}, now_);
    EXPECT_EQ(state_.phase, AgentPhase::ended);
  }
  int killed() const { return killed_; }
  int answered() const { return static_cast<int>(answered_.size()); }

 private:
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  TaskId any_task() { return TaskId{static_cast<std::uint64_t>(between(0, next_task_ + 1))}; }
  SlotId any_slot() {
    return SlotId{
        static_cast<std::uint32_t>(between(0, static_cast<int>(state_.slots.size()) - 1))};
  }

  void one_step() {
    switch (between(0, 9)) {
      case 0:
      case 1:
        return submit();
      case 2:
        now_ += std::chrono::microseconds(between(0, 40'000));
        return on_timer(state_, *this, now_);
      case 3:
        return engine_word();
      case 4:
        return end_one();
      case 5:
        return greet_one();
      case 6:
        return hostile_word();
      default:
        return honest_word();
    }
  }

  void submit() {
    wire::RunTask run;
    run.task = TaskId{static_cast<std::uint64_t>(next_task_++)};
    run.function.value[0] = static_cast<std::uint8_t>(between(1, 2));
    run.body = wire::small_buffer(SharedBytes(std::string("body")));
    if (chance(0.2)) run.worker = static_cast<std::uint32_t>(between(0, 3));
    if (chance(0.2)) run.stream_window = 2;
    if (chance(0.2)) run.timeout_ms = static_cast<std::uint64_t>(between(1, 100));
    given_.insert(run.task);
    on_message(state_, *this, run, now_);
  }

  void engine_word() {
    switch (between(0, 3)) {
      case 0:
        return on_message(state_, *this, wire::CancelTask{any_task()}, now_);
      case 1:
        return on_message(state_, *this, wire::StreamCredit{any_task(), 3}, now_);
      case 2:
        return on_message(state_, *this,
                          wire::RecallTasks{static_cast<std::uint32_t>(between(0, 5))}, now_);
      default:
        return on_message(state_, *this, wire::DropBlobs{{BlobId{1}}}, now_);
    }
  }

  void greet_one() {
    if (alive_.empty()) return;
    on_worker_hello(state_, *this, *std::next(alive_.begin(), between(0, 99) % alive_.size()),
                    now_);
  }

  // A process that was killed ends; now and then another one does, too.
  void end_one() {
    std::set<SlotId>& from = dying_.empty() && chance(0.1) ? alive_ : dying_;
    if (from.empty()) return;
    const SlotId slot = *from.begin();
    dying_.erase(slot);
    alive_.erase(slot);
    on_worker_exit(state_, *this, slot, {.text = "gone", .code = 1, .begun = any_task()}, now_);
  }

  // What a good worker would say next.
  void honest_word() {
    for (const Slot& slot : state_.slots) {
      if (slot.window.empty() || !alive_.contains(slot.id) || chance(0.3)) continue;
      say(slot.id, {.kind = wire::WorkerKind::result, .task = slot.window.front(), .run_ns = 9000});
      return;
    }
  }

  void hostile_word() {
    wire::WorkerMessage message;
    message.kind =
        std::vector{wire::WorkerKind::result, wire::WorkerKind::item, wire::WorkerKind::hello,
                    wire::WorkerKind::run}[static_cast<std::size_t>(between(0, 3))];
    message.status = static_cast<wire::WorkerStatus>(between(0, 2));
    message.task = any_task();
    message.run_ns = chance(0.5) ? random_() : 10;
    say(any_slot(), std::move(message));
  }

  // The process says it; one that does not run says nothing.
  void say(SlotId slot, wire::WorkerMessage message) {
    if (!alive_.contains(slot) && !dying_.contains(slot)) return;
    if (state_.slots[slot.value].phase != SlotPhase::ready) return;  // the loop asks for a greeting
    on_worker_message(state_, *this, slot, std::move(message), now_);
  }

  void send(wire::Message message) override {
    if (const auto* result = std::get_if<wire::TaskResult>(&message)) answer(result->task);
    if (const auto* recalled = std::get_if<wire::Recalled>(&message)) {
      for (const TaskId task : recalled->tasks) answer(task);
    }
    if (const auto* item = std::get_if<wire::StreamItem>(&message)) {
      EXPECT_TRUE(given_.contains(item->task) && !answered_.contains(item->task));
    }
  }
  void answer(TaskId task) {
    EXPECT_TRUE(given_.contains(task)) << task.value;
    EXPECT_TRUE(answered_.insert(task).second) << "task " << task.value << " is answered twice";
  }
  void start_worker(SlotId slot) override { EXPECT_TRUE(alive_.insert(slot).second); }
  void run(SlotId slot, const WorkerRun&) override { EXPECT_TRUE(alive_.contains(slot)); }
  void kill_worker(SlotId slot) override {
    ++killed_;
    if (alive_.erase(slot) > 0) dying_.insert(slot);
  }

  std::mt19937_64 random_;
  AgentState state_;
  Time now_ = Time{} + 1h;
  std::set<SlotId> alive_;
  std::set<SlotId> dying_;
  std::set<TaskId> given_;
  std::set<TaskId> answered_;
  int next_task_ = 1;
  int killed_ = 0;
};

TEST(HostileWorker, CostsItsProcessAndNothingElse) {
  int killed = 0;
  int answered = 0;
  for (std::uint64_t seed = 1; seed <= kSequences; ++seed) {
    SCOPED_TRACE(seed);
    Sequence sequence(seed);
    sequence.run();
    killed += sequence.killed();
    answered += sequence.answered();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(killed, static_cast<int>(kSequences));
  EXPECT_GT(answered, static_cast<int>(kSequences));
}

}  // namespace
}  // namespace skyward::agent
