#include "skyward/pool/event_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "skyward/engine/loop.h"
#include "skyward/spec/limits.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(EventQueue, GivesWhatIsThereAndThenTheEnd) {
  EventQueue queue;
  queue.open("", "job");
  std::vector<Event> taken;
  EXPECT_TRUE(queue.take(taken, {}));
  EXPECT_TRUE(taken.empty());
  queue.put(PoolStopping{});
  queue.put(PoolStopped{});
  queue.end();
  EXPECT_TRUE(queue.take(taken, kForever));
  EXPECT_EQ(taken, (std::vector<Event>{PoolStopping{.pool = "job"}, PoolStopped{.pool = "job"}}));
  EXPECT_FALSE(queue.take(taken, kForever));
}

TEST(EventQueue, ForeverIsUntilTheEnd) {
  EventQueue queue;
  queue.open("", "job");
  std::jthread other([&] { queue.put(PoolStopping{}); });
  std::vector<Event> taken;
  EXPECT_TRUE(queue.take(taken, kForever));
  EXPECT_EQ(taken.size(), 1U);
}

std::vector<Event> take_all(EventQueue& queue) {
  std::vector<Event> all;
  std::vector<Event> taken;
  while (queue.take(taken, {}) && !taken.empty()) {
    all.insert(all.end(), taken.begin(), taken.end());
  }
  return all;
}

TEST(EventQueue, OfTooManyLinesTheFirstAndTheLastStay) {
  EventQueue queue;
  queue.open("", "job");
  const std::size_t fit = kMaxPendingEventBytes / kMaxLineBytes;
  const std::size_t sent = 4 * fit;
  for (std::size_t i = 0; i < sent; ++i) {
    queue.put(LogLine{.line = std::string(kMaxLineBytes, 'x'), .task = i});
    if (i == sent / 2) queue.put(CostFinal{.total_cost = 3});
  }
  queue.put(PoolStopped{.pool = "job"});
  queue.end();
  const std::vector<Event> all = take_all(queue);
  ASSERT_GT(all.size(), fit / 3);
  ASSERT_LE(all.size(), fit);
  EXPECT_EQ(std::get<LogLine>(all.front()).task, 0U);
  EXPECT_EQ(all.back(), Event(PoolStopped{.pool = "job"}));
  EXPECT_EQ(std::get<LogLine>(all[all.size() - 2]).task, sent - 1);
  const auto kept = [&](auto is) { return std::ranges::count_if(all, is); };
  EXPECT_EQ(kept([](const Event& e) { return std::holds_alternative<CostFinal>(e); }), 1);
  const auto lines = kept([](const Event& e) { return std::holds_alternative<LogLine>(e); });
  const auto notice = std::ranges::find_if(
      all, [](const Event& e) { return std::holds_alternative<ErrorEvent>(e); });
  ASSERT_NE(notice, all.end());
  EXPECT_EQ(std::get<ErrorEvent>(*notice).message,
            std::to_string(sent - static_cast<std::size_t>(lines)) +
                " output lines dropped: the consumer is too slow");
}

TEST(EventBacklog, ShrinksToTheFirstAndTheLast) {
  EventBacklog backlog(kMaxPendingEventBytes);
  for (std::uint64_t i = 0; i < 50'000; ++i) backlog.push(LogLine{.line = "x", .task = i});
  backlog.shrink(1000);
  std::vector<Event> rest;
  backlog.pop(rest, 100'000);
  ASSERT_EQ(rest.size(), 1001U);
  EXPECT_EQ(std::get<LogLine>(rest.front()).task, 0U);
  EXPECT_EQ(std::get<ErrorEvent>(rest[500]).message,
            "49000 output lines dropped: the consumer is too slow");
  EXPECT_EQ(std::get<LogLine>(rest.back()).task, 49'999U);
  EXPECT_TRUE(backlog.empty());
}

TEST(EventBacklog, EventsOfTasksAreBoundedToo) {
  EventBacklog backlog(kMaxPendingEventBytes);
  constexpr std::uint64_t kTasks = 1'000'000;
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    backlog.push(TaskStarted{.task = i, .name = "f"});
    if (i == kTasks / 2) backlog.push(CostFinal{.total_cost = 3});
    if (i % 2 == 0) backlog.push(TaskFinished{.task = i, .name = "f"});
    if (i % 2 == 1) backlog.push(TaskFailed{.task = i, .name = "f", .reason = "it raised"});
  }
  std::vector<Event> rest;
  backlog.pop(rest, 2 * kTasks + 2);
  EXPECT_LT(rest.size() * sizeof(Event), kMaxPendingEventBytes);
  EXPECT_EQ(std::get<TaskStarted>(rest.front()).task, 0U);
  EXPECT_EQ(std::get<TaskFailed>(rest.back()).task, kTasks - 1);
  const auto notice = std::ranges::find_if(
      rest, [](const Event& e) { return std::holds_alternative<ErrorEvent>(e); });
  ASSERT_NE(notice, rest.end());
  EXPECT_EQ(std::get<ErrorEvent>(*notice).message,
            std::to_string(2 * kTasks + 2 - rest.size()) +
                " task events dropped: the consumer is too slow");
  EXPECT_EQ(std::ranges::count_if(
                rest, [](const Event& e) { return std::holds_alternative<CostFinal>(e); }),
            1);
}

TEST(EventBacklog, TheNoticeNamesAllThatIsMissing) {
  EventBacklog backlog(kMaxPendingEventBytes);
  for (int i = 0; i < 3; ++i) {
    backlog.push(Metrics{});
    backlog.push(LogLine{.line = "x"});
    backlog.push(TaskStarted{});
  }
  backlog.shrink(2);
  std::vector<Event> rest;
  backlog.pop(rest, 100);
  ASSERT_EQ(rest.size(), 3U);
  EXPECT_EQ(std::get<ErrorEvent>(rest[1]).message,
            "3 output lines, 2 metrics and 2 task events dropped: the consumer is too slow");
}

// All that the files of node 0 hold.
std::string text_of_node_0(const std::string& root) {
  std::string text;
  std::error_code none_yet;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root, none_yet)) {
    if (!entry.path().filename().string().starts_with("node-0.log")) continue;
    std::ifstream file(entry.path());
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

// Lets the recorder keep up, of which `written` tells how many lines it has written: a machine that
// stands still for a moment is no disk that hangs.
void put_lines(EventQueue& queue, std::uint64_t count,
               const std::function<std::uint64_t()>& written) {
  constexpr std::uint64_t kAtOnce = 5000;
  constexpr std::uint64_t kMostBehind = 20'000;  // more than the recorder leaves for later
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % kAtOnce == 0 && i > kMostBehind) {
      const Time end = engine::EngineLoop::now() + 60s;
      while (written() + kMostBehind < i) {
        ASSERT_LT(engine::EngineLoop::now(), end) << "the recorder has stopped";
        std::this_thread::yield();
      }
    }
    queue.put(LogLine{.line = "x", .task = i});
  }
}

TEST(EventQueue, TheFilesAreCompleteThoughTheHandlerIsSlow) {
  const std::string root = ::testing::TempDir() + "event-queue-files-" + std::to_string(::getpid());
  EventQueue queue;
  queue.open(root, "abcdef01");
  std::vector<Event> taken;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    queue.put(LogLine{.line = "x", .task = i});
    if (i % 1000 == 0) queue.take(taken, {});  // far behind
  }
  queue.end();
  queue.take(taken, {});
  const std::string text = text_of_node_0(root);
  EXPECT_EQ(std::ranges::count(text, '\n'), 20'000);
  EXPECT_THAT(text, HasSubstr("task 19999 "));
  std::filesystem::remove_all(root);
}

TEST(EventQueue, TheFilesAreCompleteThoughTheHandlerIsStuck) {
  const std::string root = ::testing::TempDir() + "event-queue-stuck-" + std::to_string(::getpid());
  // More than waits for a consumer, and less than a file keeps.
  constexpr std::uint64_t kLines = 150'000;
  const auto lines = [&] {
    return static_cast<std::uint64_t>(std::ranges::count(text_of_node_0(root), '\n'));
  };
  static_assert(kLines * sizeof(Event) > kMaxPendingEventBytes / 2);
  {
    EventQueue queue;
    queue.open(root, "abcdef01");
    put_lines(queue, kLines, lines);
    queue.end();
  }
  EXPECT_EQ(lines(), kLines);
  std::filesystem::remove_all(root);
}

TEST(EventQueue, WhatAStuckHandlerDoesNotTakeIsInTheFilesSoon) {
  const std::string root = ::testing::TempDir() + "event-queue-soon-" + std::to_string(::getpid());
  EventQueue queue;
  queue.open(root, "abcdef01");
  std::vector<Event> taken;
  for (std::uint64_t i = 0; i < 2; ++i) {  // also when the recorder has had nothing to do
    queue.put(LogLine{.line = "x", .task = i});
    const Time end = engine::EngineLoop::now() + 60s;
    while (!text_of_node_0(root).contains("task " + std::to_string(i) + " ")) {
      ASSERT_LT(engine::EngineLoop::now(), end);
      std::this_thread::yield();
    }
  }
  EXPECT_TRUE(queue.take(taken, {}));
  EXPECT_EQ(taken.size(), 2U);
  queue.end();
  std::filesystem::remove_all(root);
}

TEST(EventQueue, WhatOthersHaveDeliveredIsOnlyInTheFiles) {
  const std::string root = ::testing::TempDir() + "event-queue-notes-" + std::to_string(::getpid());
  EventQueue queue;
  queue.open(root, "abcdef01");
  queue.put(Notice{.message = "before"});
  queue.note({"in between", std::nullopt});
  queue.put(Notice{.message = "after"});
  queue.end();
  EXPECT_EQ(take_all(queue).size(), 2U);
  const auto directory = std::filesystem::directory_iterator(root)->path();
  std::ifstream file(directory / "pool.log");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, ContainsRegex("before\n.*in between\n.*after\n"));
  std::filesystem::remove_all(root);
}

// The log file is a pipe here, which blocks its writer until somebody reads.
TEST(EventQueue, TheFilesAreCompleteAfterADiskHasHung) {
  const std::string root = ::testing::TempDir() + "event-queue-hangs-" + std::to_string(::getpid());
  constexpr std::uint64_t kHeld = kMaxPendingEventBytes / 4 / sizeof(Event);
  constexpr std::uint64_t kLater = 150'000;
  std::optional<EventQueue> queue(std::in_place);
  queue->open(root, "abcdef01");
  queue->put(PoolStopping{});
  std::vector<Event> taken;
  queue->take(taken, {});
  const auto directory = std::filesystem::directory_iterator(root)->path();
  const std::string pipe = directory / "node-0.log";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (std::uint64_t i = 0; i < kHeld; ++i) queue->put(LogLine{.line = "x", .task = i});
  std::atomic<std::uint64_t> lines{0};
  std::jthread reader([&] {
    std::ifstream file(pipe);
    for (std::string line; std::getline(file, line); lines.notify_all()) ++lines;
  });
  for (std::uint64_t seen = 0; seen < kHeld; seen = lines) lines.wait(seen);
  put_lines(*queue, kLater, [&] { return lines - kHeld; });
  queue.reset();  // closes the files
  reader.join();
  EXPECT_EQ(lines, kHeld + kLater);
  std::filesystem::remove_all(root);
}

// While the recorder writes them, events are neither new nor to be taken.
TEST(EventQueue, WhoWaitsMeanwhileIsWokenWhenTheFilesHaveTheEvents) {
  const std::string root = ::testing::TempDir() + "event-queue-waits-" + std::to_string(::getpid());
  EventQueue queue;
  queue.open(root, "abcdef01");
  queue.put(PoolStopping{});
  std::vector<Event> taken;
  queue.take(taken, {});
  const auto directory = std::filesystem::directory_iterator(root)->path();
  const std::string pipe = directory / "node-0.log";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  constexpr std::uint64_t kLines = kMaxPendingEventBytes / 16 / sizeof(Event);
  for (std::uint64_t i = 0; i < kLines; ++i) queue.put(LogLine{.line = "x", .task = i});
  pollfd written{.fd = reader, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&written, 1, 60'000), 1) << "the recorder writes into the pipe";
  std::atomic<bool> waits{false};
  const Time begin = engine::EngineLoop::now();
  std::jthread consumer([&] {
    waits = true;
    waits.notify_all();
    queue.take(taken, 60s);
  });
  waits.wait(false);
  std::jthread drain([&](const std::stop_token& stop) {
    std::array<char, 65536> piece{};
    while (!stop.stop_requested()) {
      ::poll(&written, 1, 10);
      while (::read(reader, piece.data(), piece.size()) > 0) {
      }
    }
  });
  consumer.join();
  EXPECT_LT(engine::EngineLoop::now() - begin, 30s);
  EXPECT_FALSE(taken.empty());
  queue.end();
  while (queue.take(taken, {})) {
  }
  drain.request_stop();
  drain.join();
  ::close(reader);
  std::filesystem::remove_all(root);
}

TEST(EventQueue, DeliveredIsWhatWasTakenBeforeTheNext) {
  EventQueue queue;
  queue.open("", "job");
  EXPECT_TRUE(queue.is_delivered());
  queue.put(PoolStopping{});
  EXPECT_FALSE(queue.is_delivered());
  std::vector<Event> taken;
  queue.take(taken, {});
  EXPECT_FALSE(queue.is_delivered());
  std::jthread waiting([&] { queue.await_delivery(kForever); });
  queue.take(taken, {});
  waiting.join();
  EXPECT_TRUE(queue.is_delivered());
}

TEST(EventQueue, NobodyWaitsTwiceForWhoLagsBehind) {
  EventQueue queue;
  queue.open("", "job");
  queue.put(PoolStopping{});
  queue.await_delivery({});
  EXPECT_TRUE(queue.is_delivered());
  queue.await_delivery(kForever);  // does not wait
  std::vector<Event> taken;
  queue.take(taken, {});
  queue.put(PoolStopped{});
  queue.take(taken, {});  // the first one is delivered, the second is not
  EXPECT_TRUE(queue.is_delivered());
  queue.take(taken, {});
  queue.put(PoolStopped{});
  EXPECT_FALSE(queue.is_delivered());  // it has caught up, and is waited for again
  queue.end();
  queue.await_delivery(kForever);
}

TEST(EventQueue, TheConsumerDoesNotWaitForItself) {
  EventQueue queue;
  queue.open("", "job");
  queue.put(PoolStopping{});
  std::vector<Event> taken;
  queue.take(taken, {});
  queue.await_delivery(kForever);
  EXPECT_FALSE(queue.is_delivered());
}

}  // namespace
}  // namespace skyward
