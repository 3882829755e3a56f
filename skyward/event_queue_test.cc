#include "skyward/event_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "skyward/spec/limits.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;
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

TEST(EventQueue, LinesAndMetricsAreLeftOutBeforeAnythingElse) {
  EventQueue queue;
  queue.open("", "job");
  const LogLine line{.line = std::string(kMaxLineBytes, 'x'), .pool = "job"};
  const std::size_t fit = kMaxPendingEventBytes / kMaxLineBytes;
  for (std::size_t i = 0; i < fit; ++i) queue.put(line);
  queue.put(line);
  queue.put(Metrics{});
  queue.put(CostFinal{.total_cost = 3});
  queue.put(line);
  queue.put(PoolStopped{.pool = "job"});
  queue.end();
  std::vector<Event> taken;
  EXPECT_TRUE(queue.take(taken, {}));
  // Where the first is missing, it says so; the events' own sizes count, too.
  ASSERT_GT(taken.size(), fit / 2);
  ASSERT_LE(taken.size(), fit + 3);
  EXPECT_EQ(taken.back(), Event(PoolStopped{.pool = "job"}));
  EXPECT_EQ(taken[taken.size() - 2], Event(CostFinal{.total_cost = 3, .pool = "job"}));
  const auto* notice = std::get_if<ErrorEvent>(&taken[taken.size() - 3]);
  ASSERT_NE(notice, nullptr);
  const std::size_t left_out = fit + 3 - (taken.size() - 3);
  EXPECT_THAT(notice->message, HasSubstr(std::to_string(left_out) + " lines and metrics"));
  // There is room again.
  queue.open("", "job");
  queue.put(line);
  EXPECT_TRUE(queue.take(taken, {}));
  EXPECT_EQ(taken, (std::vector<Event>{line}));
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

}  // namespace
}  // namespace skyward
