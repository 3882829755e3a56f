// Groups of calls in the agent's core: what it takes from a process that is slow.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "skyward/agent/core.h"
#include "skyward/agent/quiet_effects_fixture.h"
#include "skyward/wire/group.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;

class CoreGroupTest : public ::testing::Test, protected QuietEffects {
 protected:
  void SetUp() override {
    wire::Configure configure;
    configure.worker_command = {"worker"};
    configure.workers.resize(1);
    on_message(state, *this, configure, now);
    on_accelerators(state, *this, {}, now);
    on_worker_hello(state, *this, SlotId{0}, now);
    messages.clear();
  }
  void TearDown() override { sanity_check(state); }

  void send(wire::Message message) override { messages.push_back(std::move(message)); }
  void withdraw(SlotId, std::span<const TaskId> tasks) override {
    withdrawn.insert(withdrawn.end(), tasks.begin(), tasks.end());
  }
  std::optional<std::uint32_t> take_rest(SlotId, TaskId group) override {
    asked.push_back(group);
    return rest;
  }

  void submit(std::uint64_t task, std::uint32_t calls, std::uint32_t window) {
    wire::GroupWriter group;
    for (std::uint32_t i = 0; i < calls; ++i) group.add(as_bytes("x"));
    wire::RunTask run;
    run.task = TaskId{task};
    run.function = FunctionId{{1}};
    run.body = wire::small_buffer(SharedBytes(std::string("body")));
    run.group = true;
    run.stream_window = window;
    run.arguments = group.take();
    on_message(state, *this, run, now);
  }
  void say(wire::WorkerKind kind, std::uint64_t task) {
    wire::WorkerMessage message;
    message.kind = kind;
    message.task = TaskId{task};
    on_worker_message(state, *this, SlotId{0}, std::move(message), now);
  }
  void advance(Duration by) {
    now += by;
    on_timer(state, *this, now);
  }

  AgentState state;
  Time now{};
  std::vector<wire::Message> messages;
  std::vector<TaskId> asked;      // take_rest()
  std::vector<TaskId> withdrawn;  // tasks behind
  std::optional<std::uint32_t> rest = 3;
};

TEST_F(CoreGroupTest, TheRestOfASlowGroupIsTakenOnce) {
  submit(1, 8, 8);
  submit(2, 8, 8);
  EXPECT_EQ(next_deadline(state), now + kGroupPatience);
  advance(kGroupPatience - 1ns);
  EXPECT_TRUE(asked.empty());
  advance(1ns);
  EXPECT_EQ(asked, std::vector{TaskId{1}});
  EXPECT_EQ(withdrawn, std::vector{TaskId{2}});
  advance(10 * kGroupPatience);
  EXPECT_EQ(asked.size(), 1U);
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(CoreGroupTest, AGroupThatMovesOnIsLeftAlone) {
  submit(1, 8, 8);
  for (int i = 0; i < 4; ++i) {
    advance(kGroupPatience - 1ns);
    say(wire::WorkerKind::item, 1);
  }
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(messages.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<wire::StreamItem>(messages.back()));
  advance(kGroupPatience);
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(CoreGroupTest, AsksAgainWhileTheProcessHasNotBegunTheGroup) {
  rest.reset();
  submit(1, 8, 8);
  advance(kGroupPatience);
  advance(kGroupPatience);
  EXPECT_EQ(asked.size(), 2U);
  rest = 0;  // its last call runs
  advance(kGroupPatience);
  EXPECT_EQ(asked.size(), 3U);
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(CoreGroupTest, TasksBehindAGroupThatDoesNotBeginAreWithdrawn) {
  rest.reset();
  submit(1, 8, 8);
  submit(2, 8, 8);
  const Time before = now;
  while (withdrawn.empty() && now < before + 2 * kWindowPatience) advance(kGroupPatience);
  EXPECT_EQ(now, before + kWindowPatience);
  EXPECT_EQ(withdrawn, std::vector{TaskId{2}});
  const std::size_t times = asked.size();
  EXPECT_EQ(next_deadline(state), now + kWindowPatience);  // from now on more slowly
  rest = 4;
  advance(kWindowPatience);
  EXPECT_EQ(asked.size(), times + 1);
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(CoreGroupTest, AGroupThatHasDeliveredDoesNotStartOver) {
  submit(1, 8, 8);
  submit(2, 8, 8);
  say(wire::WorkerKind::item, 1);
  on_worker_exit(state, *this, SlotId{0}, {.text = "exit code 1"}, now);
  const auto& died = std::get<wire::TaskResult>(messages.back());
  EXPECT_EQ(died.task, TaskId{1});
  EXPECT_EQ(died.status, TaskStatus::worker_died);
  EXPECT_EQ(state.queue.size(), 1U);  // the second one
}

TEST_F(CoreGroupTest, AProcessThatReturnsWhatItHasBegunIsEnded) {
  submit(1, 8, 8);
  submit(2, 8, 8);
  advance(kGroupPatience);
  EXPECT_EQ(withdrawn, std::vector{TaskId{2}});
  say(wire::WorkerKind::result, 1);
  say(wire::WorkerKind::item, 2);
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::result;
  message.status = wire::WorkerStatus::cancelled;
  message.task = TaskId{2};
  on_worker_message(state, *this, SlotId{0}, std::move(message), now);
  EXPECT_EQ(state.slots[0].killed, "it returned task 2, which has begun");
}

TEST_F(CoreGroupTest, OneCallIsATaskLikeOthers) {
  submit(1, 1, 1);
  EXPECT_EQ(next_deadline(state), kNever);
  say(wire::WorkerKind::result, 1);
  EXPECT_EQ(std::get<wire::TaskResult>(messages.back()).status, TaskStatus::ok);
}

TEST_F(CoreGroupTest, AGroupDoesNotTellHowLongACallTakes) {
  submit(1, 8, 8);
  say(wire::WorkerKind::result, 1);
  EXPECT_TRUE(state.run_times.empty());
}

TEST_F(CoreGroupTest, AMalformedGroupIsRefused) {
  submit(1, 8, 9);
  const auto& result = std::get<wire::TaskResult>(messages.back());
  EXPECT_EQ(result.status, TaskStatus::not_begun);
  EXPECT_EQ(result.detail, "the group counts its calls wrongly");
  wire::RunTask run;
  run.task = TaskId{2};
  run.function = FunctionId{{1}};
  run.group = true;
  run.arguments.buffers = {wire::small_buffer(SharedBytes(std::string("xxx")))};
  on_message(state, *this, run, now);
  EXPECT_EQ(std::get<wire::TaskResult>(messages.back()).detail,
            "a group of calls cannot be read: it is cut off");
}

}  // namespace
}  // namespace skyward::agent
