#include "skyward/wire/answer_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>

namespace skyward::wire {
namespace {

class AnswerRingTest : public testing::Test {
 protected:
  std::string take() {
    const auto taken = reader_.take();
    return taken ? std::string(as_text(taken->view)) : taken.error().message;
  }

  std::unique_ptr<WorkerMemory> memory_ = std::make_unique<WorkerMemory>();
  AnswerWriter writer_{*memory_};
  AnswerReader reader_{*memory_};
};

TEST_F(AnswerRingTest, WhatIsWrittenIsTakenOnceAndInOrder) {
  EXPECT_EQ(take(), "");
  EXPECT_TRUE(writer_.write(as_bytes("one ")));
  EXPECT_TRUE(writer_.write(as_bytes("two "), as_bytes("three")));
  EXPECT_EQ(take(), "one two three");
  EXPECT_EQ(take(), "");
}

TEST_F(AnswerRingTest, GoesRoundAndRefusesWhatWouldOverwrite) {
  const std::string large(kAnswerRingBytes - 10, 'x');
  EXPECT_TRUE(writer_.write(as_bytes(large)));
  EXPECT_FALSE(writer_.write(as_bytes("hello, "), as_bytes("world")));
  EXPECT_EQ(take(), large);
  EXPECT_TRUE(writer_.write(as_bytes("hello, "), as_bytes("world")));  // across the end
  EXPECT_EQ(take(), "hello, world");
  EXPECT_TRUE(writer_.write(as_bytes(std::string(kAnswerRingBytes, 'y'))));
  EXPECT_FALSE(writer_.write(as_bytes("z")));
}

TEST_F(AnswerRingTest, ACallOfAGroupIsClaimedOnce) {
  const TaskId group{(std::uint64_t{7} << 32) + 5};
  EXPECT_EQ(reader_.claim_rest(group, 4), std::nullopt);  // the worker is not there yet
  writer_.begin_group(group);
  EXPECT_TRUE(writer_.claim(4));
  EXPECT_EQ(reader_.claim_rest(TaskId{6}, 4), std::nullopt);
  EXPECT_EQ(reader_.claim_rest(group, 4), 2U);
  EXPECT_FALSE(writer_.claim(4));
  EXPECT_FALSE(writer_.claim(4));
  EXPECT_EQ(reader_.claim_rest(group, 4), 0U);
  writer_.begin_group(TaskId{6});
  EXPECT_FALSE(writer_.claim(1));
  EXPECT_EQ(reader_.claim_rest(TaskId{6}, 1), 0U);
}

TEST_F(AnswerRingTest, WorkerAndAgentNeverClaimTheSameCall) {
  constexpr std::uint32_t kCalls = 50;
  for (std::uint64_t round = 1; round <= 2000; ++round) {
    writer_.begin_group(TaskId{round});
    std::atomic<std::uint32_t> taken = 0;
    std::thread agent([&] { taken = reader_.claim_rest(TaskId{round}, kCalls).value_or(0); });
    std::uint32_t run = 1;
    while (writer_.claim(kCalls)) ++run;
    agent.join();
    ASSERT_EQ(run + taken, kCalls) << "round " << round;
  }
}

TEST_F(AnswerRingTest, TheReaderBelievesNoNumberThatTheWriterCannotHaveWritten) {
  memory_->written = kAnswerRingBytes + 1;
  EXPECT_EQ(reader_.take().error().kind, ErrorKind::invalid);
  memory_->written = 0;
  EXPECT_TRUE(writer_.write(as_bytes("one")));
  memory_->taken = 12345;  // a task may write anywhere
  EXPECT_EQ(take(), "one");
  memory_->written -= 1;  // back
  EXPECT_EQ(reader_.take().error().kind, ErrorKind::invalid);
}

TEST_F(AnswerRingTest, TellsWhatBeganAndWhetherTheWorkerUsesIt) {
  EXPECT_EQ(reader_.begun(), TaskId{});
  EXPECT_FALSE(reader_.is_announced());
  writer_.announce();
  writer_.begin(TaskId{7});
  EXPECT_EQ(reader_.begun(), TaskId{7});
  EXPECT_TRUE(reader_.is_announced());
}

// The reader falls asleep when it finds nothing and wakes when it is rung for: nothing may be left.
TEST_F(AnswerRingTest, AReaderThatFallsAsleepMissesNothing) {
  constexpr std::uint64_t kMessages = 20'000;
  std::atomic<std::uint64_t> bell{0};
  reader_.set_sleeps(true);
  std::thread worker([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      while (!writer_.write(std::as_bytes(std::span(&i, 1)))) std::this_thread::yield();
      if (writer_.agent_sleeps()) {
        ++bell;
        bell.notify_one();
      }
    }
  });
  std::uint64_t next = 0;
  const auto look = [&] {
    const SharedBytes taken = reader_.take().value();
    for (std::size_t at = 0; at < taken.size(); at += sizeof next, ++next) {
      std::uint64_t number = 0;
      std::memcpy(&number, taken.view.data() + at, sizeof number);
      ASSERT_EQ(number, next);
    }
    EXPECT_EQ(taken.size() % sizeof next, 0U);
  };
  std::uint64_t rung = 0;
  while (next < kMessages) {
    bell.wait(rung);  // times the test out if a message is missed
    rung = bell;
    reader_.set_sleeps(false);
    for (std::uint64_t before = next + 1; before != next;) {
      before = next;
      look();
    }
    reader_.set_sleeps(true);
    look();
  }
  worker.join();
}

}  // namespace
}  // namespace skyward::wire
