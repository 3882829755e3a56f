#include "skyward/io/deadline_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace skyward::io {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Wants to be called at the first of its times that has not come.
struct Owner {
  void ring() {
    ++rings;
    const Time now = EventLoop::now();
    std::erase_if(times, [now](Time time) { return time <= now; });
    if (times.empty()) loop.stop();
  }
  Time next() const { return times.empty() ? kNever : times.front(); }

  EventLoop loop;
  std::vector<Time> times;
  int rings = 0;
  DeadlineTimer timer{loop, [this] { return next(); }, [this] { ring(); }};
};

TEST(DeadlineTimerTest, RingsAtEachDeadline) {
  Owner owner;
  const Time now = EventLoop::now();
  owner.times = {now + milliseconds(1), now + milliseconds(2), now + milliseconds(3)};
  owner.timer.arm();
  owner.loop.run();
  EXPECT_GE(EventLoop::now(), now + milliseconds(3));
  EXPECT_GE(owner.rings, 1);
  EXPECT_LE(owner.rings, 3);
}

TEST(DeadlineTimerTest, AnEarlierDeadlineCounts) {
  Owner owner;
  const Time now = EventLoop::now();
  owner.times = {now + hours(1)};
  owner.timer.arm();
  owner.times = {now + milliseconds(1)};
  owner.timer.arm();
  owner.loop.run();
  EXPECT_EQ(owner.rings, 1);
}

TEST(DeadlineTimerTest, ALaterDeadlineIsSeenWhenTheArmedOneComes) {
  Owner owner;
  const Time now = EventLoop::now();
  owner.times = {now + milliseconds(1)};
  owner.timer.arm();
  owner.times = {now + milliseconds(5)};
  owner.timer.arm();
  owner.loop.run();
  EXPECT_GE(EventLoop::now(), now + milliseconds(5));
}

TEST(DeadlineTimerTest, AStoppedOneIsSilent) {
  Owner owner;
  owner.times = {EventLoop::now() + milliseconds(1)};
  owner.timer.arm();
  owner.timer.stop();
  owner.loop.start_timer(EventLoop::now() + milliseconds(5), [&] { owner.loop.stop(); });
  owner.loop.run();
  EXPECT_EQ(owner.rings, 0);
}

}  // namespace
}  // namespace skyward::io
