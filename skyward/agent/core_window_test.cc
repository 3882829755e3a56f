// What an agent's core keeps of the tasks inside a worker's process.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "skyward/agent/core_fixture.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;

class WindowTest : public AgentCoreTest {
 protected:
  // One slot; tasks of its function take this long.
  void make_ready_for(Duration run) {
    make_ready(1, 1);
    submit(9001);
    take("run 0: 9001 with body");
    worker_answers(0, 9001, run);
    take_result(9001, TaskStatus::ok);
  }
  void submit_pinned(std::uint64_t task) {
    wire::RunTask run = run_task(task);
    run.worker = 0;
    submit(run);
  }
  void answer_with_retained(std::uint64_t task, wire::WorkerStatus status) {
    wire::WorkerMessage message;
    message.kind = wire::WorkerKind::result;
    message.status = status;
    message.task = TaskId{task};
    message.retained = {BlobId{5}, BlobId{6}};
    on_worker_message(state, effects, SlotId{0}, std::move(message), now);
  }
};

// Their memory must not be used again.
TEST_F(WindowTest, TellsWhichBlobsAProcessStillUses) {
  make_ready_for(10ms);
  const std::vector<BlobId> used{BlobId{5}, BlobId{6}};
  submit(1);
  take("run 0: 1");
  answer_with_retained(1, wire::WorkerStatus::ok);
  EXPECT_EQ(take_result(1, TaskStatus::ok).retained, used);
  submit(2);
  take("run 0: 2");
  on_message(state, effects, wire::CancelTask{TaskId{2}}, now);
  take("interrupt 0: 2");
  answer_with_retained(2, wire::WorkerStatus::cancelled);
  EXPECT_EQ(take_result(2, TaskStatus::cancelled).retained, used);
}

// Children of the process may live on.
TEST_F(WindowTest, ACancelledTaskWhoseProcessIsKilledMayStillUseItsBlobs) {
  make_ready_for(10ms);
  wire::RunTask run = run_task(1);
  for (const std::uint64_t offset : {0U, 50U}) {
    run.arguments.buffers.push_back(
        wire::blob_buffer({.id = BlobId{8}, .size = 100, .descriptor = 42}, offset, 50));
  }
  submit(run);
  take("run 0: 1");
  on_message(state, effects, wire::CancelTask{TaskId{1}}, now);
  take("interrupt 0: 1");
  worker_ends(0, {.text = "killed by signal 9 (SIGKILL)", .by_signal = true, .by_sigkill = true});
  EXPECT_EQ(take_result(1, TaskStatus::cancelled).retained, std::vector{BlobId{8}});
  take("start 0");
}

TEST_F(WindowTest, ACancelledTaskThatWaitsCostsTheOneBeforeItNothing) {
  make_ready_for(10us);
  submit(1);
  submit(2);
  take("run 0: 1");
  take("run 0: 2 behind");
  on_message(state, effects, wire::CancelTask{TaskId{2}}, now);
  take("interrupt 0: 2");
  worker_answers(0, 2, 0us, wire::WorkerStatus::cancelled);
  take_result(2, TaskStatus::cancelled);
  EXPECT_EQ(next_deadline(state), kNever) << "the first one may take its time";
}

TEST_F(WindowTest, HoldsOnlySoManyTasksHoweverShort) {
  make_ready_for(1ns);
  for (std::uint64_t task = 1; task <= kMaxWorkerWindow + 1; ++task) submit_pinned(task);
  EXPECT_EQ(effects.actions.size(), kMaxWorkerWindow);
  effects.actions.clear();
}

TEST_F(WindowTest, ATaskThatTookLongerIsExpectedToDoSoAtOnce) {
  make_ready_for(10us);
  submit(1);
  take("run 0: 1");
  worker_answers(0, 1, 1ms);
  take_result(1, TaskStatus::ok);
  submit(2);
  take("run 0: 2");
  submit(3);
  expect_nothing_else();  // it would wait for 1 ms
}

TEST_F(WindowTest, NothingIsSentBehindATaskThatIsBeingEnded) {
  make_ready_for(10us);
  submit(1);
  take("run 0: 1");
  on_message(state, effects, wire::CancelTask{TaskId{1}}, now);
  take("interrupt 0: 1");
  submit_pinned(2);
  expect_nothing_else();  // the process may be killed
  worker_answers(0, 1, 0us, wire::WorkerStatus::cancelled);
  take_result(1, TaskStatus::cancelled);
  take("run 0: 2");
}

TEST_F(WindowTest, OfTasksForAWorkerAndForAnyTheOlderIsFirst) {
  make_ready_for(10ms);
  submit(1);
  take("run 0: 1");
  submit(2);
  submit_pinned(3);
  worker_answers(0, 1);
  take_result(1, TaskStatus::ok);
  take("run 0: 2");
}

// The one before it ended by itself.
TEST_F(WindowTest, AProcessDoesNotInheritTheEndOfTheOneBeforeIt) {
  make_ready_for(10ms);
  submit(1);
  take("run 0: 1");
  on_message(state, effects, wire::CancelTask{TaskId{1}}, now);
  take("interrupt 0: 1");
  worker_ends(0, {.text = "exit code 1", .code = 1});
  take_result(1, TaskStatus::cancelled);
  take("start 0");
  hello(0);
  submit(2);
  take("run 0: 2 with body");
  advance(kCancelGrace);
  expect_nothing_else();
}

TEST_F(WindowTest, AProcessAnswersOnlyItsOwnTasks) {
  make_ready(2, 1);
  submit(1);
  take("run 0: 1 with body");
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::result;
  message.task = TaskId{1};
  on_worker_message(state, effects, SlotId{1}, std::move(message), now);
  take("kill 1");
  worker_answers(0, 1);
  take_result(1, TaskStatus::ok);
}

TEST_F(WindowTest, AProcessThatIsBeingKilledGetsNoTasksWhenItGreets) {
  configure(1, 1);
  on_accelerators(state, effects, {}, now);
  take("start 0");
  advance(kWorkerStartTimeout);
  take("kill 0");
  hello(0);
  expect_nothing_else();
}

TEST_F(WindowTest, AnItemThatNobodyRequestedEndsTheProcess) {
  make_ready(1, 1);
  wire::RunTask run = run_task(1);
  run.stream_window = 1;
  submit(run);
  take("run 0: 1 with body");
  const auto say_item = [&] {
    wire::WorkerMessage item;
    item.kind = wire::WorkerKind::item;
    item.task = TaskId{1};
    on_worker_message(state, effects, SlotId{0}, std::move(item), now);
  };
  say_item();
  take_message<wire::StreamItem>();
  say_item();
  take("kill 0");
}

}  // namespace
}  // namespace skyward::agent
