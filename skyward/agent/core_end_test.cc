// How a node ends without its engine, and the notice that workers get.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "skyward/agent/core_fixture.h"

namespace skyward::agent {
namespace {

// ---- the dead man's switch

class LeaseTest : public AgentCoreTest {
 protected:
  void configure_with(Duration lease, Duration lifetime, std::vector<std::string> end_command) {
    wire::Configure message;
    message.worker_command = {"python", "worker.py"};
    message.workers.resize(1);
    message.concurrency = 1;
    message.lease_ms = static_cast<std::uint64_t>(lease / 1ms);
    message.lifetime_ms = static_cast<std::uint64_t>(lifetime / 1ms);
    message.end_command = std::move(end_command);
    on_message(state, effects, message, now);
    on_accelerators(state, effects, {}, now);
    take("start 0");
    hello(0);
    take_message<wire::Ready>();
  }
  // A node that has yet to be set up.
  void bootstrap_with(std::uint64_t lease_ms, std::uint64_t lifetime_ms) {
    wire::Configure message;
    message.workers.resize(1);
    message.bootstrap = "script";
    message.lease_ms = lease_ms;
    message.lifetime_ms = lifetime_ms;
    on_message(state, effects, message, now);
    take("bootstrap script");
  }
  void run_until(Time time) {
    while (next_deadline(state) <= time) {
      now = next_deadline(state);
      on_timer(state, effects, now);
    }
    now = time;
  }
};

TEST_F(LeaseTest, ASilentEngineEndsEverythingAndTheMachine) {
  configure_with(600s, Duration{}, {"shutdown", "-h", "now"});
  const Time began = now;
  run_until(began + 599s);
  expect_nothing_else();
  on_heard(state, now);
  run_until(began + 599s + 599s);
  expect_nothing_else();
  run_until(began + 599s + 600s);
  take("kill 0");
  take("end machine shutdown");
  take("exit 0");
  EXPECT_EQ(state.end_reason, "no message from the driver for 600 s");
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(LeaseTest, ItEndsWhileTheDevicesAreLookedFor) {
  wire::Configure message;
  message.worker_command = {"python", "worker.py"};
  message.workers.resize(1);
  message.lease_ms = 1;
  message.end_command = {"true"};
  on_message(state, effects, message, now);
  take("start 0");
  advance_to_next_deadline();
  take("kill 0");
  take("end machine true");
  take("exit 0");
}

TEST_F(LeaseTest, WithoutACommandTheAgentAloneEnds) {
  configure_with(10s, Duration{}, {});
  run_until(now + 10s);
  take("kill 0");
  take("exit 0");
}

TEST_F(LeaseTest, ALeaseOfAnyLengthIsRenewedAsItBegan) {
  bootstrap_with(std::numeric_limits<std::uint64_t>::max(), 0);
  const Duration lease = state.lease_ends - now;
  EXPECT_GT(lease, std::chrono::years(10));
  now += 1min;
  on_heard(state, now);
  EXPECT_EQ(state.lease_ends, now + lease);
}

TEST_F(LeaseTest, TheLifetimeEndsHoweverLoudTheEngineIsAndIsAnnounced) {
  configure_with(600s, 300s, {"off"});
  const Time began = now;
  run_until(began + 209s);
  on_heard(state, now);
  expect_nothing_else();
  run_until(began + 210s);  // the engine ends it at 270 s
  take("warn 0: 60 s");
  const auto output = take_message<wire::Output>();
  ASSERT_EQ(output.lines.size(), 1U);
  EXPECT_EQ(output.lines[0].text,
            "skyward: this node shuts down in 60 s: the pool's lifetime expires");
  on_heard(state, now);
  run_until(began + 300s);
  take("kill 0");
  take("end machine off");
  take("exit 0");
  EXPECT_EQ(state.end_reason, "the pool's lifetime of 300 s has expired");
}

TEST_F(LeaseTest, ItHoldsWhileTheNodeIsBeingClosed) {
  configure_with(10s, Duration{}, {});
  wire::Shutdown shutdown;
  shutdown.grace_ms = 3'600'000;
  on_message(state, effects, shutdown, now);
  take("stop 0");
  run_until(now + 10s);
  take("kill 0");
  take("exit 0");
}

TEST_F(LeaseTest, AClosedPoolsMachineEndsItself) {
  configure_with(10s, Duration{}, {"off"});
  on_message(state, effects, wire::Shutdown{.grace_ms = 300}, now);
  take("stop 0");
  worker_ends(0, {.text = "exit code 0"});
  take("end machine off");
  take("exit 0");
}

TEST_F(LeaseTest, AMachineThatIsPreemptedIsLeftToItsCloud) {
  configure_with(10s, Duration{}, {"off"});
  on_preempted(state, effects, now + 120s, "soon", now);
  take_message<wire::Preempted>();
  take("warn 0: 120 s");
  on_message(state, effects, wire::Shutdown{.grace_ms = 300}, now);
  take("stop 0");
  worker_ends(0, {.text = "exit code 0"});
  take("exit 0");
}

TEST_F(LeaseTest, WithoutALeaseSilenceMeansNothing) {
  configure_with(Duration{}, Duration{}, {});
  EXPECT_EQ(next_deadline(state), kNever);
  on_heard(state, now);
  EXPECT_EQ(next_deadline(state), kNever);
}

TEST_F(LeaseTest, ItEndsABootstrapToo) {
  bootstrap_with(10'000, 0);
  run_until(now + 10s);
  take("kill bootstrap");
  take("exit 0");
}

TEST_F(LeaseTest, OneWithoutEndDoesNotEnd) {
  bootstrap_with(~std::uint64_t{0}, ~std::uint64_t{0});
  advance(1min);
  expect_nothing_else();
}

// The engine has half of it, and workers hear of the end at half of that.
TEST_F(LeaseTest, AShortLifetimeIsAnnouncedAndEndedInTime) {
  configure_with(600s, 20s, {});
  EXPECT_EQ(state.pool_ends, now + 10s);
  run_until(now + 4s);
  expect_nothing_else();
  run_until(now + 1s);
  take("warn 0: 5 s");
  take_message<wire::Output>();
}

// Whoever ends it with its line may start another one there.
TEST_F(LeaseTest, AnAgentWhoseDriverHasGoneDoesNotEndTheMachine) {
  configure_with(600s, Duration{}, {"off"});
  on_disconnected(state, effects, "the driver is gone");
  take("kill 0");
  take("exit 0");
}

// ---- preemption

class NoticeTest : public AgentCoreTest {};

TEST_F(NoticeTest, ANoticeGoesToTheEngineAndToEveryWorkerOnce) {
  make_ready(2, 1);
  on_preempted(state, effects, now + 120s, "EC2 will terminate this machine", now);
  const auto notice = take_message<wire::Preempted>();
  EXPECT_EQ(notice.left_ms, 120'000U);
  EXPECT_EQ(notice.reason, "EC2 will terminate this machine");
  take("warn 0: 120 s");
  take("warn 1: 120 s");
  on_preempted(state, effects, now + 100s, "again", now);
}

TEST_F(NoticeTest, AWorkerThatStartsAfterTheNoticeHearsOfItToo) {
  configure(1, 1);
  on_preempted(state, effects, now + 120s, "soon", now);
  take_message<wire::Preempted>();
  on_accelerators(state, effects, {}, now);
  take("start 0");
  now += 20s;
  hello(0);
  take("warn 0: 100 s");
  take_message<wire::Ready>();
}

TEST_F(NoticeTest, ANoticeThatComesTooLateLeavesNoTime) {
  make_ready(1, 1);
  on_preempted(state, effects, now - 5s, "EC2 has terminated this machine", now);
  EXPECT_EQ(take_message<wire::Preempted>().left_ms, 0U);
  take("warn 0: 0 s");
}

TEST_F(NoticeTest, AfterTheEndNobodyIsTold) {
  make_ready(1, 1);
  on_disconnected(state, effects, "the driver is gone");
  take("kill 0");
  take("exit 0");
  on_preempted(state, effects, now, "too late", now);
}

TEST_F(LeaseTest, TheEndOfTheBudgetIsAnnouncedOnceAndWorkersThatStartLaterAreTold) {
  configure(1, 2);
  on_accelerators(state, effects, {}, now);
  take("start 0");
  hello(0);
  take_message<wire::Ready>();
  submit(1);
  take("run 0: 1 with body");
  submit(2);
  take("start 1");
  const wire::EndAhead ahead{.left_ms = 30'000, .reason = "the pool's budget is spent"};
  on_message(state, effects, ahead, now);
  take("warn 0: 30 s");
  EXPECT_EQ(take_message<wire::Output>().lines.at(0).text,
            "skyward: this node shuts down in 30 s: the pool's budget is spent");
  on_message(state, effects, ahead, now);
  expect_nothing_else();
  now += 10s;
  hello(1);
  take("warn 1: 20 s");
  take("run 1: 2 with body");
}

TEST_F(LeaseTest, AnEndBeforeTheLifetimesIsTheOneThatIsAnnounced) {
  configure_with(600s, 300s, {});  // the engine ends it at 270 s
  run_until(now + 100s);
  on_message(state, effects, wire::EndAhead{.left_ms = 40'000, .reason = "spent"}, now);
  take("warn 0: 40 s");
  take_message<wire::Output>();
  on_heard(state, now);
  run_until(now + 190s);
  expect_nothing_else();
}

TEST_F(LeaseTest, AnEndAfterTheAnnouncedOneIsNoNews) {
  configure_with(600s, 300s, {});
  run_until(now + 210s);
  take("warn 0: 60 s");
  take_message<wire::Output>();
  on_message(state, effects, wire::EndAhead{.left_ms = 70'000, .reason = "spent"}, now);
  expect_nothing_else();
}

TEST_F(LeaseTest, TheLifetimesOwnAnnouncementWillComeIfItEndsFirst) {
  configure_with(600s, 900s, {});  // the engine ends it at 870 s
  on_message(state, effects, wire::EndAhead{.left_ms = 1'800'000, .reason = "spent"}, now);
  expect_nothing_else();
  run_until(now + 10s);
  EXPECT_NE(next_deadline(state), kNever);
  on_disconnected(state, effects, "the driver is gone");
  take("kill 0");
  take("exit 0");
}

TEST_F(NoticeTest, OfTwoEndsTheEarlierIsTheOneThatWorkersKnow) {
  make_ready(1, 1);
  on_preempted(state, effects, now + 5s, "soon", now);
  take_message<wire::Preempted>();
  take("warn 0: 5 s");
  on_message(state, effects, wire::EndAhead{.left_ms = 30'000, .reason = "spent"}, now);
  take_message<wire::Output>();
  expect_nothing_else();
}

TEST_F(NoticeTest, APreemptionAfterThePoolsEndIsNoNewsToWorkers) {
  make_ready(1, 1);
  on_message(state, effects, wire::EndAhead{.left_ms = 30'000, .reason = "spent"}, now);
  take("warn 0: 30 s");
  take_message<wire::Output>();
  on_preempted(state, effects, now + 120s, "later", now);
  take_message<wire::Preempted>();
  expect_nothing_else();
}

}  // namespace
}  // namespace skyward::agent
