#include "skyward/agent/core.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/agent/core_fixture.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/spec/topology.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;
using wire::WorkerKind;
using wire::WorkerStatus;

class CoreTest : public AgentCoreTest {
 protected:
  // After the pause that follows a death before the first task.
  void starts_after(std::uint32_t slot, Duration pause) {
    expect_nothing_else();
    EXPECT_EQ(next_deadline(state), now + pause);
    advance_to_next_deadline();
    take("start " + std::to_string(slot));
  }
  // Makes the core know that function 1 takes 10 µs.
  void teach_short() {
    submit(9001);
    take("run 0: 9001 with body");
    worker_answers(0, 9001, 10us);
    take_result(9001, TaskStatus::ok);
  }

  const WorkerExit killed{.text = "killed by signal 9 (SIGKILL)",
                          .by_signal = true,
                          .by_sigkill = true,
                          .peak_bytes = 3LL << 30};
  const WorkerExit exited{.text = "exit code 3", .code = 3, .peak_bytes = 40 << 20};
};

TEST_F(CoreTest, StartsSlotZeroOfEveryWorkerAndIsReadyWhenAllGreeted) {
  state.memory_bytes = 512;
  configure(2, 4);
  take("start 0");
  take("start 4");
  now += 1500ms;
  hello(4);
  on_accelerators(state, effects, {"H200"}, now);
  expect_nothing_else();
  hello(0);
  const auto ready = take_message<wire::Ready>();
  EXPECT_EQ(ready.accelerators, std::vector<std::string>{"H200"});
  EXPECT_EQ(ready.elapsed_ms, 1500U);
  EXPECT_EQ(ready.memory_bytes, 512U);
}

TEST_F(CoreTest, AWorkerHasOneSlotAtLeast) {
  make_ready(1, 0);
  submit(1);
  take("run 0: 1 with body");
}

TEST_F(CoreTest, BootstrapsBeforeTheWorkersStart) {
  configure(1, 1, "script");
  take("bootstrap script");
  now += 20ms;
  on_bootstrap_step(state, effects, "say the image is old", now);
  EXPECT_EQ(take_message<wire::Output>().lines.at(0).text, "skyward: the image is old");
  on_bootstrap_step(state, effects, "begin uv", now);
  on_bootstrap_step(state, effects, "uv", now);
  EXPECT_EQ(take_message<wire::BootstrapStep>(),
            (wire::BootstrapStep{.step = "uv", .elapsed_ms = 20}));
  on_bootstrap_end(state, effects, {.ok = true}, now);
  take("start 0");
}

TEST_F(CoreTest, WorkersSeeTheDevicesAndWhatTheScriptSaysOfThem) {
  wire::Configure message;
  message.worker_command = {"python", "worker.py"};
  InstanceInfo info{.total_nodes = 2, .workers_per_node = 2};
  for (int worker = 0; worker < 2; ++worker) {
    info.worker = worker;
    message.workers.push_back({{{"COMPUTE_POOL", to_json(info)}, {"CUDA_VISIBLE_DEVICES", "9"}}});
  }
  message.bootstrap = "script";
  on_message(state, effects, message, now);
  take("bootstrap script");
  for (const char* line : {"worker * A=1", "worker 0 CUDA_VISIBLE_DEVICES=MIG-a",
                           "worker 1 CUDA_VISIBLE_DEVICES=MIG-b", "worker 7 A=2", "worker 1 A"})
    on_bootstrap_step(state, effects, line, now);
  on_accelerators(state, effects, {"H100-80GB"}, now);
  expect_nothing_else();
  on_bootstrap_end(state, effects, {.ok = true}, now);
  take("start 0");
  take("start 1");
  info.accelerators = {"H100-80GB"};
  info.total_accelerators = 2;
  EXPECT_EQ(worker_environment(state, 1),
            (wire::KeyValues{
                {"A", "1"}, {"COMPUTE_POOL", to_json(info)}, {"CUDA_VISIBLE_DEVICES", "MIG-b"}}));
  EXPECT_EQ(worker_environment(state, 0).back().second, "MIG-a");
}

TEST_F(CoreTest, ReportsAFailedBootstrap) {
  configure(1, 1, "script");
  take("bootstrap script");
  on_bootstrap_step(state, effects, "begin deps", now);
  on_bootstrap_end(
      state, effects,
      {.command = "uv pip install nope", .reason = "exit code 1", .lines = {"no such"}}, now);
  EXPECT_EQ(take_message<wire::Failed>(), (wire::Failed{.step = "deps",
                                                        .command = "uv pip install nope",
                                                        .reason = "exit code 1",
                                                        .lines = {"no such"}}));
  submit(1);
  EXPECT_EQ(take_result(1, TaskStatus::not_begun).detail, "the node has failed");
}

TEST_F(CoreTest, NamesTheFailedStepOfAScriptThatTellsOnlyFinishedOnes) {
  configure(1, 1, "script");
  take("bootstrap script");
  on_bootstrap_step(state, effects, "uv", now);
  on_bootstrap_step(state, effects, "apt", now);
  EXPECT_EQ(take_message<wire::BootstrapStep>().step, "uv");
  EXPECT_EQ(take_message<wire::BootstrapStep>().step, "apt");
  on_bootstrap_end(state, effects, {.reason = "exit code 1"}, now);
  EXPECT_EQ(take_message<wire::Failed>().step, "deps");
}

TEST_F(CoreTest, NamesWhatDoesNotSayWhichDevicesThereAre) {
  configure(1, 1);
  take("start 0");
  hello(0);
  on_accelerators(state, effects, {}, now, "nvidia-smi");
  const auto said = take_message<wire::Output>().lines.at(0);
  EXPECT_EQ(said.stream, wire::OutputStream::err);
  EXPECT_EQ(said.text.find("skyward: nvidia-smi does not answer on this machine"), 0U);
  const auto ready = take_message<wire::Ready>();
  EXPECT_TRUE(ready.accelerators.empty());
  EXPECT_TRUE(ready.devices_unknown);
  on_accelerators(state, effects, {}, now, "nvidia-smi");  // said already
}

TEST_F(CoreTest, TellsWhyThereAreNoDevices) {
  configure(1, 1);
  take("start 0");
  hello(0);
  on_accelerators(state, effects, {}, now, {}, "No devices were found");
  const auto ready = take_message<wire::Ready>();
  EXPECT_EQ(ready.device_error, "No devices were found");
  EXPECT_FALSE(ready.devices_unknown);
}

TEST_F(CoreTest, KillsABootstrapThatTakesTooLong) {
  configure(1, 1, "script");
  take("bootstrap script");
  advance_to_next_deadline();
  take("kill bootstrap");
  on_bootstrap_end(state, effects, {.reason = "killed by signal 9 (SIGKILL)"}, now);
  EXPECT_EQ(take_message<wire::Failed>().reason, "timed out after 600 s");
}

TEST_F(CoreTest, GivesUpANodeWhoseWorkersDoNotStart) {
  configure(1, 1);
  on_accelerators(state, effects, {}, now);
  for (std::uint32_t i = 0; i < kMaxWorkerStartFailures; ++i) {
    if (i == 0) take("start 0");
    if (i > 0) starts_after(0, kWorkerStartPause * i);
    on_output(state, effects, SlotId{0}, {{.text = "ImportError " + std::to_string(i)}});
    take_message<wire::Output>();
    worker_ends(0, exited);
  }
  EXPECT_EQ(take_message<wire::Failed>(), (wire::Failed{.step = "server",
                                                        .command = "python worker.py",
                                                        .reason = "exit code 3",
                                                        .lines = {"ImportError 2"}}));
}

TEST_F(CoreTest, KillsAWorkerThatDoesNotGreet) {
  configure(1, 1);
  on_accelerators(state, effects, {}, now);
  take("start 0");
  advance_to_next_deadline();
  take("kill 0");
  worker_ends(0, killed);
  starts_after(0, kWorkerStartPause);
}

TEST_F(CoreTest, RunsTasksInOrderAndSendsABodyOnce) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  submit(2);
  submit(3);
  expect_nothing_else();  // nothing is known of this function: one at a time
  worker_answers(0, 1);
  take_result(1, TaskStatus::ok);
  take("run 0: 2");
  worker_answers(0, 2, 10ms, WorkerStatus::raised);
  take_result(2, TaskStatus::raised);
  take("run 0: 3");
  worker_answers(0, 3);
  EXPECT_EQ(take_result(3, TaskStatus::ok).run_ns, 10'000'000U);
}

TEST_F(CoreTest, StartsFurtherSlotsWhenTheyAreNeeded) {
  make_ready(2, 2);  // slots 0, 1 of worker 0 and 2, 3 of worker 1
  submit(1);
  take("run 0: 1 with body");
  submit(2);
  take("run 2: 2 with body");
  submit(3);
  take("start 1");
  submit(4);
  take("start 3");
  submit(5);
  hello(3);
  take("run 3: 3 with body");
  worker_answers(2, 2);
  take_result(2, TaskStatus::ok);
  take("run 2: 4");
  hello(1);
  take("run 1: 5 with body");
}

TEST_F(CoreTest, SendsShortTasksAheadAndWithdrawsThemFromBehindASlowOne) {
  make_ready(1, 2);
  teach_short();
  constexpr std::uint64_t kWindow = kMaxWorkerWindow;
  for (std::uint64_t task = 1; task <= kWindow + 4; ++task) submit(task);
  take("run 0: 1");
  for (std::uint64_t task = 2; task <= kWindow; ++task)
    take("run 0: " + std::to_string(task) + " behind");
  take("start 1");  // for those that have no room
  worker_answers(0, 1, 10us);
  take_result(1, TaskStatus::ok);
  take("run 0: " + std::to_string(kWindow + 1) + " behind");
  advance_to_next_deadline();
  std::string withdrawn = "withdraw 0:";
  for (std::uint64_t task = 3; task <= kWindow + 1; ++task) withdrawn += fmt::format(" {}", task);
  take(withdrawn);
  worker_answers(0, 3, 0us, WorkerStatus::cancelled);
  hello(1);
  take("run 1: 3 with body");  // it is older than those that no slot has had yet
  for (std::uint64_t task = kWindow + 2; task <= kWindow + 4; ++task)
    take("run 1: " + std::to_string(task) + " behind");
  worker_answers(0, 4, 0us, WorkerStatus::cancelled);
  take("run 1: 4 behind");
  worker_answers(0, 2, 30ms);  // slow after all: no more ahead
  take_result(2, TaskStatus::ok);
  expect_nothing_else();
  worker_answers(0, 5, 0us, WorkerStatus::cancelled);  // withdrawn, now the front
  expect_nothing_else();
  EXPECT_EQ(state.queue, std::deque<TaskId>{TaskId{5}});
}

// The agent was held up: the process has answered everything, and the answers lie unread while the
// timer rings again and again. Asking twice for the same task would leave a note in the process
// that is still there when the task comes back to it.
TEST_F(CoreTest, WithdrawsATaskOnceHoweverOftenItsWindowWaits) {
  make_ready(1, 1);
  teach_short();
  for (std::uint64_t task = 1; task <= 4; ++task) submit(task);
  take("run 0: 1");
  for (std::uint64_t task = 2; task <= 4; ++task)
    take("run 0: " + std::to_string(task) + " behind");
  advance_to_next_deadline();
  take("withdraw 0: 2 3 4");
  worker_answers(0, 1, 10us);
  take_result(1, TaskStatus::ok);
  submit(5);
  take("run 0: 5 behind");
  advance_to_next_deadline();
  take("withdraw 0: 5");
  advance(1s);
  expect_nothing_else();
  worker_answers(0, 2, 10us);
  take_result(2, TaskStatus::ok);
  advance(1s);
  expect_nothing_else();
  worker_answers(0, 3, 0us, WorkerStatus::cancelled);
  take("run 0: 3 behind");
  advance(1s);
  take("withdraw 0: 3");  // a new stay in the window, a new note
  for (const std::uint64_t task : {4, 5, 3}) {
    worker_answers(0, task, 10us);
    take_result(task, TaskStatus::ok);
  }
}

TEST_F(CoreTest, DoesNotSendAheadBehindATaskThatHasTakenLong) {
  make_ready(1, 1);
  teach_short();
  submit(1);
  take("run 0: 1");
  now += 2ms;
  submit(2);
  expect_nothing_else();
}

TEST_F(CoreTest, RunsPinnedTasksAtPlaceZeroOfTheirWorkerInTurn) {
  make_ready(2, 2);
  wire::RunTask pinned = run_task(2);
  pinned.worker = 1;
  submit(pinned);
  take("run 2: 2 with body");
  wire::RunTask second = run_task(3);
  second.worker = 1;
  submit(second);
  expect_nothing_else();  // it waits for slot 2, no other will do
  submit(4);
  take("run 0: 4 with body");
  worker_answers(2, 2);
  take_result(2, TaskStatus::ok);
  take("run 2: 3");
  wire::RunTask wrong = run_task(5);
  wrong.worker = 2;
  submit(wrong);
  EXPECT_EQ(take_result(5, TaskStatus::not_begun).detail,
            "the call asks for worker 2, but the node has 2");
}

TEST_F(CoreTest, LeavesFirstSlotsToBroadcastsWhereItCan) {
  make_ready(1, 3);
  submit(1);
  take("run 0: 1 with body");  // the only process that there is
  submit(2);
  take("start 1");
  hello(1);
  take("run 1: 2 with body");
  for (const std::uint32_t slot : {0U, 1U}) {
    worker_answers(slot, slot + 1);
    take_result(slot + 1, TaskStatus::ok);
  }
  submit(3);
  take("run 1: 3");
  submit(4);
  take("run 0: 4");
}

TEST_F(CoreTest, AStreamWaitsForAnotherSlotThanTheFirstOne) {
  make_ready(1, 2);
  wire::RunTask stream = run_task(1);
  stream.stream_window = 4;
  submit(stream);
  take("start 1");
  wire::RunTask pinned = run_task(2);
  pinned.worker = 0;
  submit(pinned);
  take("run 0: 2 with body");
  hello(1);
  take("run 1: 1 with body");
  worker_answers(0, 2);
  take_result(2, TaskStatus::ok);
  wire::RunTask second = run_task(3);
  second.stream_window = 4;
  submit(second);
  take("run 0: 3");  // there is no other
}

TEST_F(CoreTest, CancelsAQueuedTaskAtOnce) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  submit(2);
  on_message(state, effects, wire::CancelTask{TaskId{2}}, now);
  take_result(2, TaskStatus::cancelled);
  on_message(state, effects, wire::CancelTask{TaskId{77}}, now);  // long answered
}

TEST_F(CoreTest, InterruptsARunningTaskAndKillsItAfterTheGrace) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  submit(2);
  on_message(state, effects, wire::CancelTask{TaskId{1}}, now);
  take("interrupt 0: 1");
  on_message(state, effects, wire::CancelTask{TaskId{1}}, now);  // once is enough
  EXPECT_EQ(next_deadline(state), now + kCancelGrace);
  advance_to_next_deadline();
  take("kill 0");
  worker_ends(0, killed);
  EXPECT_EQ(take_result(1, TaskStatus::cancelled).detail, "cancelled");
  take("start 0");
  hello(0);
  take("run 0: 2 with body");
}

// A computer that slept, or was too busy to run either of them.
TEST_F(CoreTest, GivesAnInterruptedTaskItsGraceAgainWhenTheAgentStoodStill) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  on_message(state, effects, wire::CancelTask{TaskId{1}}, now);
  take("interrupt 0: 1");
  advance(kCancelGrace + kHeldUp + 1ms);
  EXPECT_EQ(next_deadline(state), now + kCancelGrace);
  advance_to_next_deadline();
  take("kill 0");
}

TEST_F(CoreTest, GivesWorkersTheirGraceAgainWhenTheAgentStoodStillWhileItClosed) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  on_message(state, effects, wire::Shutdown{.grace_ms = 300}, now);
  take("interrupt 0: 1");
  take("stop 0");
  advance(300ms + kHeldUp + 1ms);
  EXPECT_EQ(next_deadline(state), now + kCancelGrace);
  advance_to_next_deadline();
  take("kill 0");
}

TEST_F(CoreTest, TakesTheAnswerOfAnInterruptedTask) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  on_message(state, effects, wire::CancelTask{TaskId{1}}, now);
  take("interrupt 0: 1");
  worker_answers(0, 1, 1s, WorkerStatus::cancelled);
  take_result(1, TaskStatus::cancelled);
  submit(2);
  take("run 0: 2");
  on_message(state, effects, wire::CancelTask{TaskId{2}}, now);
  take("interrupt 0: 2");
  worker_answers(0, 2);  // it was quicker
  take_result(2, TaskStatus::ok);
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(CoreTest, CancelsATaskThatWaitsInsideAProcess) {
  make_ready(1, 1);
  teach_short();
  for (std::uint64_t task = 1; task <= 3; ++task) submit(task);
  take("run 0: 1");
  take("run 0: 2 behind");
  take("run 0: 3 behind");
  on_message(state, effects, wire::CancelTask{TaskId{2}}, now);
  take("interrupt 0: 2");
  worker_answers(0, 2, 0us, WorkerStatus::cancelled);
  take_result(2, TaskStatus::cancelled);
  on_message(state, effects, wire::CancelTask{TaskId{3}}, now);
  take("interrupt 0: 3");
  worker_answers(0, 1, 10us);
  take_result(1, TaskStatus::ok);
  take("interrupt 0: 3");  // it is the front now and may have begun
  EXPECT_EQ(next_deadline(state), now + kCancelGrace);
  worker_answers(0, 3, 10us);
  take_result(3, TaskStatus::ok);
}

TEST_F(CoreTest, EndsATaskAtItsTimeLimitCountedFromItsBegin) {
  make_ready(1, 1);
  teach_short();
  submit(1);
  take("run 0: 1");
  wire::RunTask limited = run_task(2);
  limited.timeout_ms = 1500;
  submit(limited);
  take("run 0: 2 behind");
  now += 15ms;
  worker_answers(0, 1, 10us);
  take_result(1, TaskStatus::ok);
  EXPECT_EQ(next_deadline(state), now + 1500ms);
  advance_to_next_deadline();
  take("interrupt 0: 2");
  on_output(state, effects, SlotId{0}, {{.task = TaskId{2}, .text = "working"}});
  take_message<wire::Output>();
  worker_answers(0, 2, 1500ms, WorkerStatus::cancelled);
  const auto result = take_result(2, TaskStatus::timed_out);
  EXPECT_EQ(result.detail, "ran longer than 1.5 s");
  EXPECT_EQ(result.tail, std::vector<std::string>{"working"});
}

TEST_F(CoreTest, BlamesTheFirstTaskOfADeadWorkerAndRunsTheOthersAgain) {
  make_ready(1, 1);
  teach_short();
  for (std::uint64_t task = 1; task <= 3; ++task) submit(task);
  for (const char* action : {"run 0: 1", "run 0: 2 behind", "run 0: 3 behind"}) take(action);
  on_message(state, effects, wire::CancelTask{TaskId{3}}, now);
  take("interrupt 0: 3");
  worker_ends(0, exited);
  EXPECT_EQ(take_result(1, TaskStatus::worker_died).detail,
            "the worker process exited with code 3 while it ran the task, as if the function had "
            "called exit(); its peak memory was 40 MiB");
  take_result(3, TaskStatus::cancelled);
  take("start 0");
  hello(0);
  take("run 0: 2 with body");
  worker_ends(0, killed);
  EXPECT_THAT(take_result(2, TaskStatus::worker_died).detail,
              ::testing::HasSubstr("its peak memory was 3.0 GiB. Skyward did not send that signal; "
                                   "the kernel does when memory runs out"));
  take("start 0");
}

TEST_F(CoreTest, RunsATaskAgainThatItsDeadWorkerHadNotRead) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  WorkerExit unread = killed;
  unread.begun = TaskId{9001};
  for (std::uint32_t i = 0; i < kMaxUnreadTries; ++i) {
    worker_ends(0, unread);
    take("start 0");
    hello(0);
    take("run 0: 1 with body");
  }
  worker_ends(0, unread);
  EXPECT_EQ(take_result(1, TaskStatus::not_begun).detail,
            "the worker process ended 6 times in a row before it began a task: killed by signal 9 "
            "(SIGKILL)");
  take("start 0");
  hello(0);
  submit(2);
  take("run 0: 2 with body");
  worker_ends(0, killed);
  take_result(2, TaskStatus::worker_died);
  take("start 0");
}

TEST_F(CoreTest, BlamesNoTaskForTheDeathOfAnIdleWorker) {
  make_ready(1, 1);
  teach_short();
  submit(1);
  submit(2);
  take("run 0: 1");
  take("run 0: 2 behind");
  WorkerExit idle = killed;
  idle.begun = TaskId{9001};  // that one was answered
  worker_ends(0, idle);
  take("start 0");
  hello(0);
  take("run 0: 1 with body");
  take("run 0: 2 behind");
  worker_answers(0, 1, 10us);
  take_result(1, TaskStatus::ok);
  worker_ends(0, killed);
  take_result(2, TaskStatus::worker_died);
  take("start 0");
}

TEST_F(CoreTest, FailsTheWaitingTasksWhenAWorkerDoesNotStartAgain) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  submit(2);
  worker_ends(0, killed);
  take_result(1, TaskStatus::worker_died);
  take("start 0");
  for (std::uint32_t i = 0; i < kMaxWorkerStartFailures; ++i) {
    if (i > 0) starts_after(0, kWorkerStartPause * i);
    on_output(state, effects, SlotId{0}, {{.text = "no space left"}});
    take_message<wire::Output>();
    worker_ends(0, exited);
  }
  const auto result = take_result(2, TaskStatus::not_begun);
  EXPECT_EQ(result.detail,
            "the worker process ended 3 times in a row before it began a task: exit code 3");
  EXPECT_EQ(result.tail, std::vector<std::string>{"no space left"});
  submit(3);  // a new task tries again
  take("start 0");
  hello(0);
  take("run 0: 3 with body");
}

// Hundreds of processes that start at once leave the agent no processor to say that it lives.
TEST_F(CoreTest, StartsAFewProcessesAtATime) {
  state.max_starting = 3;
  make_ready(1, 8);
  submit(1);
  take("run 0: 1 with body");
  for (std::uint64_t task = 2; task <= 7; ++task) submit(task);
  for (const char* action : {"start 1", "start 2", "start 3"}) take(action);
  expect_nothing_else();
  hello(2);
  take("start 4");
  take("run 2: 2 with body");
  worker_ends(1, exited);  // its next try comes after a pause, behind the others
  take("start 5");
  expect_nothing_else();
  EXPECT_EQ(next_deadline(state), now + kWorkerStartPause);
  advance_to_next_deadline();
  expect_nothing_else();
  EXPECT_EQ(next_deadline(state), now + 2s - kWorkerStartPause);
  advance_to_next_deadline();  // these wait for a disk, not for a processor
  take("start 6");
  take("start 1");
  expect_nothing_else();
  on_message(state, effects, wire::CancelTask{TaskId{7}}, now);
  take_result(7, TaskStatus::cancelled);
  EXPECT_EQ(next_deadline(state), now + kWorkerStartTimeout - 2s);
}

TEST_F(CoreTest, AProcessThatHasNotStartedNeedsNoKill) {
  state.max_starting = 1;
  make_ready(1, 3);
  submit(1);
  take("run 0: 1 with body");
  submit(2);
  submit(3);
  take("start 1");
  on_message(state, effects, wire::Shutdown{.grace_ms = 1000}, now);
  take("interrupt 0: 1");
  take("stop 0");
  take("kill 1");
  worker_ends(0, {});
  expect_nothing_else();
  worker_ends(1, killed);
  take("exit 0");
}

TEST_F(CoreTest, KillsAWorkerThatBreaksTheProtocol) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  worker_answers(0, 55);
  take("kill 0");
  worker_ends(0, killed);
  EXPECT_EQ(
      take_result(1, TaskStatus::worker_died).detail,
      "the worker process was killed: it mentioned task 55, which it did not receive; its peak "
      "memory was 3.0 GiB");
  take("start 0");
}

TEST_F(CoreTest, GivesBackTheNewestQueuedTasks) {
  make_ready(1, 1);
  for (std::uint64_t task = 1; task <= 4; ++task) submit(task);
  take("run 0: 1 with body");
  wire::RunTask pinned = run_task(5);
  pinned.worker = 0;
  submit(pinned);
  on_message(state, effects, wire::RecallTasks{2}, now);
  EXPECT_EQ(take_message<wire::Recalled>().tasks, (std::vector{TaskId{4}, TaskId{3}}));
  on_message(state, effects, wire::RecallTasks{9}, now);
  EXPECT_EQ(take_message<wire::Recalled>().tasks, std::vector{TaskId{2}});
  on_message(state, effects, wire::RecallTasks{9}, now);
  EXPECT_TRUE(take_message<wire::Recalled>().tasks.empty());
}

TEST_F(CoreTest, PassesStreamItemsAndCreditsOn) {
  make_ready(1, 1);
  wire::RunTask stream = run_task(1);
  stream.stream_window = 2;
  stream.attempt = 3;
  submit(stream);
  take("run 0: 1 with body");
  on_worker_message(state, effects, SlotId{0}, {.kind = WorkerKind::item, .task = TaskId{1}}, now);
  const auto item = take_message<wire::StreamItem>();
  EXPECT_EQ(item.task, TaskId{1});
  EXPECT_EQ(item.attempt, 3U);
  on_message(state, effects, wire::StreamCredit{.task = TaskId{1}, .count = 1}, now);
  take("credit 0: 1 1");
  worker_answers(0, 1);
  take_result(1, TaskStatus::ok);
  on_message(state, effects, wire::StreamCredit{.task = TaskId{1}, .count = 1}, now);
}

TEST_F(CoreTest, KeepsBlobsUntilTheyAreDropped) {
  make_ready(1, 1);
  auto storage = std::make_shared<const int>(5);
  const std::weak_ptr<const int> watch = storage;
  wire::RunTask first = run_task(1);
  first.arguments.buffers.push_back(wire::blob_buffer(
      {.id = BlobId{8}, .size = 100, .descriptor = 42, .storage = std::move(storage)}, 0, 100));
  submit(first);
  take("run 0: 1 with body");
  worker_answers(0, 1);
  take_result(1, TaskStatus::ok);
  first = {};
  wire::RunTask second = run_task(2);
  second.arguments.buffers.push_back(wire::blob_buffer({.id = BlobId{8}, .size = 100}, 0, 100));
  submit(second);
  take("run 0: 2");
  EXPECT_EQ(state.tasks.at(TaskId{2}).run.arguments.buffers[0].blob.descriptor, 42);
  worker_answers(0, 2);
  take_result(2, TaskStatus::ok);
  EXPECT_FALSE(watch.expired());
  on_message(state, effects, wire::DropBlobs{{BlobId{8}}}, now);
  EXPECT_TRUE(watch.expired());
  second.task = TaskId{3};
  submit(second);
  take_result(3, TaskStatus::not_begun);
}

TEST_F(CoreTest, DropsFunctionsEverywhere) {
  make_ready(1, 2);
  submit(1);
  take("run 0: 1 with body");
  worker_answers(0, 1);
  take_result(1, TaskStatus::ok);
  on_message(state, effects, wire::DropFunctions{{run_task(1).function}}, now);
  take("drop 0: " + std::to_string(run_task(1).function.value[0]));  // no other has it
  EXPECT_TRUE(state.bodies.empty());
  EXPECT_TRUE(state.run_times.empty());
  sent_body = false;
  submit(2);
  take("run 0: 2 with body");
  worker_answers(0, 2);
  take_result(2, TaskStatus::ok);
}

TEST_F(CoreTest, AFunctionThatRunsIsNotTakenFromItsProcess) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  submit(2);  // waits: nobody knows how long the first takes
  on_message(state, effects, wire::DropFunctions{{run_task(1).function}}, now);
  worker_answers(0, 1);
  take_result(1, TaskStatus::ok);
  take("run 0: 2");
  worker_answers(0, 2);
  take_result(2, TaskStatus::ok);
}

TEST_F(CoreTest, KeepsTheLastLinesOfATask) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  for (std::size_t i = 0; i < kTailLines + 5; ++i) {
    on_output(state, effects, SlotId{0}, {{.task = TaskId{1}, .text = std::to_string(i)}});
    take_message<wire::Output>();
  }
  worker_answers(0, 1, 1ms, WorkerStatus::raised);
  const auto result = take_result(1, TaskStatus::raised);
  EXPECT_EQ(result.tail.size(), kTailLines);
  EXPECT_EQ(result.tail.front(), "5");
}

TEST_F(CoreTest, TellsAFloodOfOutputInSeveralMessages) {
  make_ready(1, 1);
  on_output(state, effects, SlotId{0}, std::vector<wire::OutputLine>(20000));
  std::size_t lines = 0;
  int messages = 0;
  while (!effects.messages.empty()) {
    lines += take_message<wire::Output>().lines.size();
    ++messages;
  }
  EXPECT_EQ(lines, 20000U);
  EXPECT_EQ(messages, 2);
}

TEST_F(CoreTest, StopsItsWorkersInOrderAndKillsWhatIsLeft) {
  make_ready(2, 1);
  submit(1);
  take("run 0: 1 with body");
  on_message(state, effects, wire::Shutdown{.grace_ms = 300}, now);
  take("interrupt 0: 1");
  take("stop 0");
  take("stop 1");
  worker_ends(1, {.text = "exit code 0"});
  expect_nothing_else();
  EXPECT_EQ(next_deadline(state), now + 300ms);
  advance_to_next_deadline();
  take("kill 0");
  worker_ends(0, killed);
  take("exit 0");
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(CoreTest, ShutsDownDuringTheBootstrap) {
  configure(1, 1, "script");
  take("bootstrap script");
  on_message(state, effects, wire::Shutdown{.grace_ms = 300}, now);
  take("kill bootstrap");
  take("exit 0");
}

TEST_F(CoreTest, EndsAtOnceWhenTheDriverIsGone) {
  make_ready(1, 1);
  submit(1);
  take("run 0: 1 with body");
  on_disconnected(state, effects, "the driver is gone");
  take("kill 0");
  take("exit 0");
  EXPECT_EQ(state.end_reason, "the driver is gone");
}

}  // namespace
}  // namespace skyward::agent
