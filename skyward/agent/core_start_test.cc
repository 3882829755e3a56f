// Worker processes that end before they have begun a task.

#include "skyward/agent/core_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/agent/quiet_effects_fixture.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StartEffects final : public QuietEffects {
 public:
  void send(wire::Message message) override {
    EXPECT_FALSE(failed) << "the engine looks at nothing after that";
    if (auto* result = std::get_if<wire::TaskResult>(&message))
      results.push_back(std::move(*result));
    if (auto* failure = std::get_if<wire::Failed>(&message)) failed = std::move(*failure);
  }
  void start_worker(SlotId slot) override { started.push_back(slot); }
  void run(SlotId, const WorkerRun& run) override { ran.push_back(run.task.task); }
  void exit(int) override { exited = true; }

  std::vector<SlotId> started;
  std::vector<TaskId> ran;
  std::vector<wire::TaskResult> results;
  std::optional<wire::Failed> failed;
  bool exited = false;
};

class CoreStartTest : public testing::Test {
 protected:
  // A node with one worker, whose first process has greeted.
  void open(std::uint32_t concurrency = 1) {
    wire::Configure message;
    message.worker_command = {"worker"};
    message.workers.resize(1);
    message.concurrency = concurrency;
    on_message(state, effects, message, now);
    on_accelerators(state, effects, {}, now);
    greet(0);
  }
  // A process has been started since the last call, and greets.
  void greet(std::uint32_t slot) {
    EXPECT_THAT(std::exchange(effects.started, {}), ElementsAre(SlotId{slot}));
    on_worker_hello(state, effects, SlotId{slot}, now);
    sanity_check(state);
  }
  void submit(std::uint64_t task, std::uint8_t function = 0, std::size_t body_bytes = 4) {
    wire::RunTask run;
    run.task = TaskId{task};
    run.function = FunctionId{{function}};
    run.body = wire::small_buffer(SharedBytes(std::string(body_bytes, 'b')));
    on_message(state, effects, run, now);
    sanity_check(state);
  }
  void end(std::uint32_t slot, TaskId begun = {}) {
    on_worker_exit(state, effects, SlotId{slot}, {.text = "exit code 3", .code = 3, .begun = begun},
                   now);
    sanity_check(state);
  }
  void wait(Duration pause) {
    EXPECT_THAT(effects.started, IsEmpty());
    EXPECT_EQ(next_deadline(state), now + pause);
    now += pause;
    on_timer(state, effects, now);
    sanity_check(state);
  }
  // Slot 0 runs task 1, and task 2 waits. Slot 1 is not tried any more.
  void open_with_a_slot_that_does_not_start() {
    open(2);
    submit(1);
    submit(2);
    for (std::uint32_t i = 1; i <= kMaxWorkerStartFailures; ++i) {
      EXPECT_THAT(std::exchange(effects.started, {}), ElementsAre(SlotId{1}));
      end(1);
      if (i < kMaxWorkerStartFailures) wait(kWorkerStartPause * i);
    }
  }

  // Processes greet and end until the slot has none, and a task that waited for it fails.
  void fail_round(std::uint64_t task) {
    submit(task);
    for (std::uint32_t i = 1; i <= kMaxWorkerStartFailures; ++i) {
      if (state.slots[0].phase != SlotPhase::ready) greet(0);
      on_output(state, effects, SlotId{0}, {{.text = "no module"}});
      end(0);
      if (i < kMaxWorkerStartFailures) wait(kWorkerStartPause * i);
    }
  }

  AgentState state;
  StartEffects effects;
  Time now{1000s};
};

// Each of them was ready.
TEST_F(CoreStartTest, AWorkerThatEndsWithoutATaskIsNotStartedForEver) {
  open();
  end(0);
  wait(kWorkerStartPause);
  greet(0);
  end(0);
  wait(2 * kWorkerStartPause);
  greet(0);
  end(0);
  EXPECT_EQ(next_deadline(state), kNever);
  EXPECT_THAT(effects.started, IsEmpty());
  submit(1);  // a new task tries again
  greet(0);
  EXPECT_THAT(effects.ran, ElementsAre(TaskId{1}));
}

// Slot 0 is there, and takes the broadcasts of its worker.
TEST_F(CoreStartTest, ABroadcastThatWaitsDoesNotFailWithAnotherSlot) {
  open(2);
  submit(1);
  wire::RunTask broadcast;
  broadcast.task = TaskId{2};
  broadcast.worker = 0;
  broadcast.function = FunctionId{{1}};
  broadcast.body = wire::small_buffer(SharedBytes(std::string("body")));
  on_message(state, effects, broadcast, now);
  submit(3);
  for (std::uint32_t i = 1; i <= kMaxWorkerStartFailures; ++i) {
    EXPECT_THAT(std::exchange(effects.started, {}), ElementsAre(SlotId{1}));
    end(1);
    if (i < kMaxWorkerStartFailures) wait(kWorkerStartPause * i);
  }
  EXPECT_THAT(effects.results, IsEmpty());
}

TEST_F(CoreStartTest, AProcessThatLeavesOnPurposeIsNoFailedTryOfTheNextTask) {
  open();
  submit(1);
  for (std::uint32_t i = 1; i <= 2 * kMaxUnreadTries; ++i) {
    EXPECT_THAT(effects.ran, testing::SizeIs(i));
    on_worker_exit(state, effects, SlotId{0},
                   {.text = "exit code 117", .code = wire::kWorkerLeavesCode, .begun = TaskId{99}},
                   now);
    greet(0);
  }
  EXPECT_THAT(effects.results, IsEmpty());
}

TEST_F(CoreStartTest, ATaskThatNoWorkerBeginsFailsWithTheirLastWords) {
  open();
  submit(1);
  for (std::uint32_t i = 1; i <= kMaxWorkerStartFailures; ++i) {
    EXPECT_THAT(effects.ran, testing::SizeIs(i));
    on_output(state, effects, SlotId{0}, {{.task = TaskId{1}, .text = std::to_string(i)}});
    end(0);
    if (i == kMaxWorkerStartFailures) break;
    wait(kWorkerStartPause * i);
    greet(0);
  }
  ASSERT_THAT(effects.results, testing::SizeIs(1));
  EXPECT_EQ(effects.results[0].status, wire::TaskStatus::not_begun);
  EXPECT_EQ(effects.results[0].detail,
            "the worker process ended 3 times in a row before it began a task: exit code 3");
  EXPECT_THAT(effects.results[0].tail, ElementsAre("3"));
}

TEST_F(CoreStartTest, AFunctionThatEndsItsWorkerIsNoFailedStart) {
  open();
  for (std::uint64_t task = 1; task <= 2 * kMaxWorkerStartFailures; ++task) {
    end(0);
    wait(kWorkerStartPause);
    greet(0);
    submit(task);
    end(0, TaskId{task});
    EXPECT_THAT(effects.results, testing::SizeIs(task));
    greet(0);
  }
}

TEST_F(CoreStartTest, AWorkerThatEndsAfterLongIsNoFailedStart) {
  open();
  for (std::uint32_t i = 0; i <= kMaxWorkerStartFailures; ++i) {
    now += kWorkerStartTimeout;
    end(0);
    greet(0);
  }
}

TEST_F(CoreStartTest, OtherSlotsGoOnWhenOneDoesNotStart) {
  open_with_a_slot_that_does_not_start();
  EXPECT_THAT(effects.results, IsEmpty());
  wire::WorkerMessage done;
  done.kind = wire::WorkerKind::result;
  done.task = TaskId{1};
  on_worker_message(state, effects, SlotId{0}, std::move(done), now);
  EXPECT_THAT(effects.ran, ElementsAre(TaskId{1}, TaskId{2}));
}

TEST_F(CoreStartTest, ASlotThatDidNotStartIsTriedAgainAfterAMinute) {
  open_with_a_slot_that_does_not_start();
  now += kWorkerStartTimeout - 1ms;
  submit(3);
  EXPECT_THAT(effects.started, IsEmpty()) << "another slot works";
  now += 1ms;
  submit(4);
  EXPECT_THAT(effects.started, ElementsAre(SlotId{1}));
}

TEST_F(CoreStartTest, ANodeWhereNoWorkerEverBeginsATaskFails) {
  open();
  for (std::uint64_t task = 1; task < kMaxFailedRounds; ++task) {
    fail_round(task);
    EXPECT_THAT(effects.results, testing::SizeIs(task));
    EXPECT_FALSE(effects.failed);
  }
  fail_round(kMaxFailedRounds);
  ASSERT_TRUE(effects.failed);
  EXPECT_THAT(effects.results, testing::SizeIs(kMaxFailedRounds - 1)) << "the last one may move";
  EXPECT_TRUE(state.tasks.empty());
  EXPECT_EQ(effects.failed->step, "server");
  EXPECT_EQ(effects.failed->command, "worker");
  EXPECT_EQ(effects.failed->reason,
            "no worker process has begun a task; the last one: exit code 3");
  EXPECT_THAT(effects.failed->lines, ElementsAre("no module"));
  EXPECT_EQ(next_deadline(state), kNever);
}

// Its body does not fit into the memory, for example.
TEST_F(CoreStartTest, AFunctionThatNoProcessLivesToBeginFailsAlone) {
  open();
  submit(1, 1);
  submit(2, 2);
  submit(3, 1);
  for (std::uint32_t i = 1; i <= kMaxWorkerStartFailures; ++i) {
    EXPECT_EQ(effects.ran.back(), TaskId{1});
    end(0);
    if (i == kMaxWorkerStartFailures) break;
    wait(kWorkerStartPause * i);
    greet(0);
  }
  ASSERT_THAT(effects.results, testing::SizeIs(2));
  EXPECT_EQ(effects.results[0].task, TaskId{1});
  EXPECT_EQ(effects.results[1].task, TaskId{3});
  greet(0);
  EXPECT_EQ(effects.ran.back(), TaskId{2});
}

TEST_F(CoreStartTest, ALargeFunctionIsNoReasonToReplaceTheNode) {
  open();
  for (std::uint64_t task = 1; task <= std::uint64_t{2} * kMaxFailedRounds; ++task) {
    submit(task, 1, kHeavyFunctionBytes);
    for (std::uint32_t i = 1; i <= kMaxWorkerStartFailures; ++i) {
      if (state.slots[0].phase != SlotPhase::ready) greet(0);
      end(0);
      if (i < kMaxWorkerStartFailures) wait(kWorkerStartPause * i);
    }
    ASSERT_THAT(effects.results, testing::SizeIs(task));
    EXPECT_EQ(effects.results.back().detail,
              "the worker process ended 3 times in a row before it began a task: exit code 3; the "
              "function, with what it refers to, takes 16 MiB");
  }
  EXPECT_FALSE(effects.failed);
}

TEST_F(CoreStartTest, ANodeWhereOneTaskHasBegunStays) {
  open();
  submit(1);
  end(0, TaskId{1});  // the function ended its process
  greet(0);
  for (std::uint64_t task = 2; task < 2 + 2 * kMaxFailedRounds; ++task) fail_round(task);
  EXPECT_FALSE(effects.failed);
  submit(100);
  greet(0);
  EXPECT_EQ(effects.ran.back(), TaskId{100});
}

TEST_F(CoreStartTest, APauseBeforeAStartEndsWithThePool) {
  open();
  end(0);
  on_message(state, effects, wire::Shutdown{.grace_ms = 1000}, now);
  sanity_check(state);
  EXPECT_TRUE(effects.exited);
}

}  // namespace
}  // namespace skyward::agent
