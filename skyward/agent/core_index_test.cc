// What a message costs must not depend on the number of slots: the core asks its indexes.

#include "skyward/agent/core_index.h"
#include "skyward/spec/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "skyward/agent/quiet_effects_fixture.h"

namespace skyward::agent {
namespace {

// Only processes that start and tasks that run matter here.
class Starts final : public QuietEffects {
 public:
  void start_worker(SlotId slot) override { started.push_back(slot); }
  void run(SlotId slot, const WorkerRun& run) override { ran.emplace_back(slot, run.task.task); }

  std::vector<SlotId> started;
  std::vector<std::pair<SlotId, TaskId>> ran;
};

class CoreIndexTest : public testing::Test {
 protected:
  void configure(std::uint32_t workers, std::uint32_t concurrency) {
    wire::Configure message;
    message.worker_command = {"worker"};
    message.workers.resize(workers);
    message.concurrency = concurrency;
    on_message(state, effects, message, now);
    on_accelerators(state, effects, {}, now);
  }
  void greet() {
    for (const SlotId slot : std::exchange(effects.started, {}))
      on_worker_hello(state, effects, slot, now);
  }
  void submit(std::uint64_t task, std::optional<std::uint32_t> worker, std::uint64_t limit_ms = 0) {
    wire::RunTask run;
    run.task = TaskId{task};
    run.worker = worker;
    run.timeout_ms = limit_ms;
    run.body = wire::small_buffer(SharedBytes(std::string("body")));
    on_message(state, effects, run, now);
    sanity_check(state);
  }
  void answer(std::uint32_t slot, std::uint64_t task, Duration took) {
    wire::WorkerMessage message;
    message.kind = wire::WorkerKind::result;
    message.task = TaskId{task};
    message.run_ns = static_cast<std::uint64_t>(took.count());
    on_worker_message(state, effects, SlotId{slot}, std::move(message), now);
    sanity_check(state);
  }

  AgentState state;
  Starts effects;
  Time now{std::chrono::seconds(1000)};
};

TEST_F(CoreIndexTest, SlotsAreFoundByWhatTheyCanDo) {
  configure(2, 2);
  greet();
  EXPECT_THAT(state.idle, testing::ElementsAre(SlotId{0}, SlotId{2}));
  EXPECT_THAT(state.absent, testing::ElementsAre(SlotId{1}, SlotId{3}));
  EXPECT_EQ(next_deadline(state), kNever);
  submit(1, 1, 500);
  EXPECT_THAT(state.idle, testing::ElementsAre(SlotId{0}));
  EXPECT_THAT(state.open, testing::ElementsAre(
                              testing::Field(&std::pair<Duration, SlotId>::second, SlotId{2})));
  EXPECT_EQ(next_deadline(state), now + std::chrono::milliseconds(500));
  submit(2, 1);
  EXPECT_THAT(state.pinned_waiting, testing::ElementsAre(1U));
  answer(2, 1, std::chrono::seconds(1));
  EXPECT_TRUE(state.pinned_waiting.empty());
  EXPECT_EQ(effects.ran.back(), std::pair(SlotId{2}, TaskId{2}));
  EXPECT_EQ(next_deadline(state), kNever) << "task 2 has no limit";
}

TEST_F(CoreIndexTest, TheShortestWindowsGetMoreAndSlowOnesNone) {
  configure(3, 1);
  greet();
  for (std::uint64_t task = 1; task <= 3; ++task) submit(task, std::nullopt);
  answer(0, 1, std::chrono::microseconds(10));
  submit(4, std::nullopt);
  submit(5, std::nullopt);
  EXPECT_EQ(state.slots[0].window.size(), 2U);
  EXPECT_EQ(state.slots[1].window.size(), 1U) << "its task was not known to be short";
  EXPECT_EQ(next_deadline(state), now + kWindowPatience);
  now += kWindowPatience;
  on_timer(state, effects, now);
  sanity_check(state);
  EXPECT_THAT(state.open, testing::SizeIs(2)) << "slot 0 takes no more until its front has ended";
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(CoreIndexTest, AProcessThatWaitsToStartAgainHasNoTimeToGreetYet) {
  state.max_starting = 1;
  configure(2, 1);
  on_worker_exit(state, effects, SlotId{0}, {.text = "exit code 3", .code = 3}, now);
  sanity_check(state);
  EXPECT_THAT(effects.started, testing::ElementsAre(SlotId{0}, SlotId{1}));
  EXPECT_EQ(state.slots[0].phase, SlotPhase::queued);
  EXPECT_EQ(state.slots[0].start_deadline, kNever) << "that of the process that has ended";
}

}  // namespace
}  // namespace skyward::agent
