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
