// A worker process that is a shell: it sends messages that the test has written for it.

#include "skyward/agent/worker_proc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace skyward::agent {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

// The shell reports every signal, and reads its cancel pipe at the second SIGURG.
constexpr const char* kTellsSignals =
    "printf '\\007\\000\\000\\000\\000\\000\\000\\000' >&5\n"  // has begun this task
    "n=0; trap 'echo INT' INT\n"
    "trap 'n=$((n+1)); echo URG; [ $n != 2 ] || { dd bs=8 count=1 <&4 >read 2>&1; mv read all; }'"
    " URG\n"
    "mkfifo more; cat hello >&3; (cat more; cat result >&3) & while :; do wait; done";

class WorkerProcTest : public testing::Test {
 protected:
  WorkerProcTest() {
    std::string name = testing::TempDir() + "skyward-worker-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    write_message("hello", wire::WorkerKind::hello);
    write_message("item", wire::WorkerKind::item);
    write_message("result", wire::WorkerKind::result);
    loop_.start_timer(io::EventLoop::now() + 60s, [this] {
      ADD_FAILURE() << "the test waited too long";
      loop_.stop();
    });
  }
  ~WorkerProcTest() override { std::filesystem::remove_all(folder_); }

  void write_message(const std::string& file, wire::WorkerKind kind) const {
    wire::WorkerMessage message;
    message.kind = kind;
    if (kind != wire::WorkerKind::hello) message.task = TaskId{7};
    const auto encoded = wire::encode_worker_message(message);
    std::ofstream(folder_ / file, std::ios::binary)
        .write(reinterpret_cast<const char*>(encoded.head.data()),
               static_cast<std::streamsize>(encoded.head.size()));
  }

  // The script finds the messages where it runs; descriptor 3 is the way to the agent.
  void start(const std::string& script) {
    auto started = WorkerProcess::start(
        loop_,
        {.command = {"sh", "-c", script}, .environment = {}, .directory = folder_, .worker = 0},
        {.on_hello = [this](const std::string&) { on_hello(); },
         .on_message =
             [this](const wire::WorkerMessage& message) {
               seen_.emplace_back(message.kind == wire::WorkerKind::item ? "item" : "result");
               if (message.kind == wire::WorkerKind::result) on_result();
             },
         .on_output =
             [this](const std::vector<wire::OutputLine>& lines) {
               for (const wire::OutputLine& line : lines) {
                 bytes_ += line.text.size() + 1;
                 if (line.text == "y") continue;
                 seen_.push_back(line.text);
                 on_line();
               }
             },
         .on_broken = [this](const std::string& reason) { on_broken(reason); },
         .on_exit = [this](const io::ExitStatus&, TaskId) { loop_.stop(); }});
    ASSERT_TRUE(started) << started.error().message;
    worker_ = *std::move(started);
  }

  // Interrupts the task in a shell that has begun task 7, and ends it after so many signals.
  void interrupt(TaskId task, std::size_t signals) {
    on_result = [this] { worker_->kill(); };
    on_hello = [this, task] { worker_->interrupt(task); };
    on_line = [this, signals] {
      if (seen_.size() == signals) std::ofstream(folder_ / "more");
    };
    start(kTellsSignals);
    loop_.run();
  }

  // So many tasks at once.
  void give(std::uint64_t count) {
    loop_.post([this, count] {
      for (std::uint64_t task = 1; task <= count; ++task) {
        wire::RunTask run;
        run.task = TaskId{task};
        EXPECT_THAT(worker_->run({.task = run, .body = {}, .behind = true}), testing::IsEmpty());
      }
    });
  }

  io::EventLoop loop_;
  std::filesystem::path folder_;
  std::vector<std::string> seen_;  // lines, items and results
  std::size_t bytes_ = 0;          // of lines
  std::function<void()> on_hello = [] {};
  std::function<void()> on_line = [] {};
  std::function<void()> on_result = [] {};
  std::function<void(const std::string&)> on_broken = [](const std::string& reason) {
    ADD_FAILURE() << reason;
  };
  std::unique_ptr<WorkerProcess> worker_;
};

TEST_F(WorkerProcTest, WhatATaskWroteComesBeforeItsItemsAndItsResult) {
  on_result = [this] { worker_->kill(); };
  start("cat hello >&3; echo one; cat item >&3; echo two >&2; cat result >&3; sleep 1000");
  loop_.run();
  // The agent may come to read when the second line is there, too, even between its two pipes.
  EXPECT_THAT(seen_, AnyOf(ElementsAre("one", "item", "two", "result"),
                           ElementsAre("one", "two", "item", "result"),
                           ElementsAre("two", "one", "item", "result")));
}

TEST_F(WorkerProcTest, AProgressBarThatHangsIsTold) {
  on_line = [this] { worker_->kill(); };
  start("cat hello >&3; printf '\\r40%%' >&2; sleep 1000");
  loop_.run();
  EXPECT_THAT(seen_, ElementsAre("40%"));
}

TEST_F(WorkerProcTest, PausedOutputWaitsForTheResultAndNoneIsLost) {
  on_result = [this] { worker_->kill(); };
  start("cat hello >&3; echo one; cat item item >&3; echo two; cat result >&3; sleep 1000");
  worker_->pause_output(true);
  loop_.run();
  EXPECT_THAT(seen_, ElementsAre("item", "item", "one", "two", "result"));
}

// Nothing wakes the agent for these answers: it looks.
TEST_F(WorkerProcTest, WhatABurstAnswersAndWritesIsFoundThoughNobodyRings) {
  on_result = [this] { worker_->kill(); };
  start("cat hello >&3; echo one; echo two >&2; cat result >&3; sleep 1000");
  give(8);
  loop_.run();
  EXPECT_THAT(seen_, AnyOf(ElementsAre("one", "two", "result"),  // all in one look, or in two
                           ElementsAre("two", "one", "result")));
}

TEST_F(WorkerProcTest, AProcessIsWaitedForAgainAfterItsBurst) {
  on_result = [this] {
    if (seen_.size() == 8) {  // all that it had: after the next looks the burst is over
      loop_.start_timer(io::EventLoop::now() + 10ms, [this] { std::ofstream(folder_ / "more"); });
    } else if (seen_.back() == "late") {
      ADD_FAILURE() << "the line came after the result";
    } else if (seen_.size() == 10) {
      worker_->kill();
    }
  };
  start(
      "mkfifo more; cat hello >&3; for i in 1 2 3 4 5 6 7 8; do cat result >&3; done; printf . "
      ">&6; "
      "cat more; echo late; cat result >&3; sleep 1000");
  give(8);
  loop_.run();
  ASSERT_EQ(seen_.size(), 10U);
  EXPECT_EQ(seen_[8], "late");
}

// Answers that were sent before the process ended, behind no bell.
TEST_F(WorkerProcTest, TheEndOfAProcessInABurstLosesNoAnswer) {
  start("cat hello >&3; echo one; cat result result result >&3; exit 1");
  give(8);
  loop_.run();
  EXPECT_THAT(seen_, ElementsAre("one", "result", "result", "result"));
}

// Says that it uses the ring, and does not.
constexpr const char* kAnnounce =
    "printf '\\001' | dd of=/proc/self/fd/5 bs=1 seek=72 conv=notrunc 2>/dev/null; cat hello >&3; ";

TEST_F(WorkerProcTest, AnAnswerWithoutAPlaceInTheRingBreaksTheProtocol) {
  std::string why;
  on_broken = [&](const std::string& reason) {
    why = reason;
    worker_->kill();
  };
  start(std::string(kAnnounce) + "cat result >&3; sleep 1000");
  loop_.run();
  EXPECT_THAT(why, testing::HasSubstr("no place in its ring"));
  EXPECT_THAT(seen_, testing::IsEmpty());
}

TEST_F(WorkerProcTest, ARingThatHoldsNoMessageBreaksTheProtocol) {
  std::string why;
  on_broken = [&](const std::string& reason) {
    why = reason;
    worker_->kill();
  };
  // One byte is in the ring, says the worker.
  start(std::string(kAnnounce) +
        "printf '\\001' | dd of=/proc/self/fd/5 bs=1 seek=64 conv=notrunc 2>/dev/null; "
        "printf . >&6; sleep 1000");
  loop_.run();
  EXPECT_THAT(why, testing::HasSubstr("cut off"));
}

// The first one may come just before the process waits in a system call.
TEST_F(WorkerProcTest, AnInterruptThatNobodyHasSeenIsFollowedByOthers) {
  interrupt(TaskId{7}, 3);
  ASSERT_GE(seen_.size(), 4U);
  EXPECT_EQ(seen_[0], "INT") << "once: a handler of the user's hears nothing else";
  EXPECT_EQ(seen_[1], "URG");
  EXPECT_EQ(seen_[2], "URG");
  EXPECT_EQ(std::ranges::count(seen_, "INT"), 1);
}

TEST_F(WorkerProcTest, ATaskThatHasNotBegunIsCancelledWithoutAnInterrupt) {
  interrupt(TaskId{8}, 2);
  EXPECT_THAT(seen_, Not(Contains("INT")));
}

// Once the words are read, no more signals come, however long the process waits.
TEST_F(WorkerProcTest, WordsThatAreReadAreNotRepeated) {
  on_result = [this] { worker_->kill(); };
  std::size_t heard = 0;
  const auto end_when_read = [&](const auto& again) -> void {
    if (!std::filesystem::exists(folder_ / "all")) {
      loop_.start_timer(io::EventLoop::now() + 10ms, [&, again] { again(again); });
      return;
    }
    loop_.start_timer(io::EventLoop::now() + 50ms, [&] { heard = seen_.size(); });
    loop_.start_timer(io::EventLoop::now() + 2s, [this] { std::ofstream(folder_ / "more"); });
  };
  on_hello = [&] {
    worker_->notify(std::array{std::uint64_t{7} | wire::kWorkerWithdrawBit});
    end_when_read(end_when_read);
  };
  start(kTellsSignals);
  loop_.run();
  EXPECT_THAT(seen_, Not(Contains("INT")));
  EXPECT_EQ(seen_.size(), heard + 1) << "and the result";
}

// What a task started goes on writing, as fast as it is read.
TEST_F(WorkerProcTest, AFloodIsReadNoFurtherThanTheResult) {
  constexpr std::size_t kPipeBytes = std::size_t{64} << 10;
  constexpr int kResults = 20;
  std::size_t told = 0;
  int results = 0;
  on_result = [&] {
    if (++results < kResults) return;
    told = bytes_;
    worker_->kill();
  };
  std::string script = "cat hello >&3; yes & yes & yes & ";
  for (int i = 0; i < kResults; ++i) script += "cat result >&3; ";
  start(script + "sleep 1000");
  worker_->pause_output(true);
  loop_.run();
  EXPECT_LE(told, kResults * kPipeBytes);
}

}  // namespace
}  // namespace skyward::agent
