#include "skyward/wire/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "skyward/spec/limits.h"

namespace skyward::wire {
namespace {

using Arrival = Session::Arrival;

Message numbered(std::uint32_t count) { return RecallTasks{count}; }

TEST(Session, NumbersFromOne) {
  Session session;
  EXPECT_EQ(session.number(numbered(10)), (Envelope{.sequence = 1, .acknowledged = 0}));
  EXPECT_EQ(session.number(numbered(11)), (Envelope{.sequence = 2, .acknowledged = 0}));
  EXPECT_EQ(session.control(), (Envelope{.sequence = 0, .acknowledged = 0}));
  EXPECT_EQ(session.unacknowledged(), 2U);
}

TEST(Session, KnowsWhatItKeeps) {
  Session session;
  const std::string line(1000, 'x');
  session.number(Output{{{.text = line}, {.text = line}}});
  session.number(StreamItem{.payload = {{small_buffer(SharedBytes(std::string(300, 'y')))}}});
  RunTask run;
  run.body = small_buffer(SharedBytes(std::string(70, 'z')));
  session.number(std::move(run));
  EXPECT_EQ(session.unacknowledged_bytes(), 2370U);
  EXPECT_EQ(session.arrived({.sequence = 0, .acknowledged = 1}), Arrival::deliver);
  EXPECT_EQ(session.unacknowledged_bytes(), 370U);
  EXPECT_TRUE(session.resume(3).empty());
  EXPECT_EQ(session.unacknowledged_bytes(), 0U);
  TaskResult result;
  result.payload.buffers.push_back(small_buffer(SharedBytes(std::string(40, 'r'))));
  session.number(std::move(result));
  session.number(RunTasks{.bytes = SharedBytes(std::string(500, 't'))});
  session.number(TaskResults{.bytes = SharedBytes(std::string(6'000, 'a'))});
  session.number(BlobChunk{.bytes = SharedBytes(std::string(70'000, 'c'))});
  EXPECT_EQ(session.unacknowledged_bytes(), 76'540U);
}

TEST(Session, NumbersEverythingButGreetingsAndHeartbeats) {
  EXPECT_FALSE(is_numbered(Hello{}));
  EXPECT_FALSE(is_numbered(Welcome{}));
  EXPECT_FALSE(is_numbered(Heartbeat{}));
  EXPECT_TRUE(is_numbered(Configure{}));
  EXPECT_TRUE(is_numbered(TaskResult{}));
  Session session;
  EXPECT_DEATH(session.number(Heartbeat{}), "is_numbered");
}

TEST(Session, DeliversInOrderAndTellsWhatItHas) {
  Session session;
  EXPECT_EQ(session.arrived({.sequence = 1, .acknowledged = 0}), Arrival::deliver);
  EXPECT_EQ(session.arrived({.sequence = 2, .acknowledged = 0}), Arrival::deliver);
  EXPECT_EQ(session.last_received(), 2U);
  EXPECT_EQ(session.control().acknowledged, 2U);
  EXPECT_EQ(session.number(numbered(1)).acknowledged, 2U);
}

TEST(Session, DropsDuplicates) {
  Session session;
  for (const std::uint64_t sequence : {1, 2, 3}) {
    session.arrived({.sequence = sequence, .acknowledged = 0});
  }
  for (const std::uint64_t sequence : {1, 2, 3}) {
    EXPECT_EQ(session.arrived({.sequence = sequence, .acknowledged = 0}), Arrival::duplicate);
  }
  EXPECT_EQ(session.last_received(), 3U);
}

TEST(Session, NoticesAGap) {
  Session session;
  EXPECT_EQ(session.arrived({.sequence = 2, .acknowledged = 0}), Arrival::gap);
  EXPECT_EQ(session.last_received(), 0U);
  EXPECT_EQ(session.arrived({.sequence = 1, .acknowledged = 0}), Arrival::deliver);
}

TEST(Session, NoticesAcknowledgementsOfWhatWasNeverSent) {
  Session session;
  session.number(numbered(1));
  EXPECT_EQ(session.arrived({.sequence = 1, .acknowledged = 2}), Arrival::gap);
  EXPECT_EQ(session.unacknowledged(), 1U);
  EXPECT_EQ(session.last_received(), 0U);
}

TEST(Session, ControlIsAlwaysDeliveredAndAcknowledges) {
  Session session;
  session.number(numbered(1));
  session.number(numbered(2));
  EXPECT_EQ(session.arrived({.sequence = 0, .acknowledged = 1}), Arrival::deliver);
  EXPECT_EQ(session.unacknowledged(), 1U);
  EXPECT_EQ(session.arrived({.sequence = 0, .acknowledged = 0}), Arrival::deliver);  // late
  EXPECT_EQ(session.unacknowledged(), 1U);
  EXPECT_EQ(session.last_received(), 0U);
}

TEST(Session, OwesAnAcknowledgementAfterSoManyFrames) {
  Session session;
  std::uint64_t sequence = 0;
  for (std::uint32_t i = 0; i < kAcknowledgeEvery; ++i) {
    session.arrived({.sequence = ++sequence, .acknowledged = 0});
    EXPECT_FALSE(session.should_acknowledge());
  }
  session.arrived({.sequence = ++sequence, .acknowledged = 0});
  EXPECT_TRUE(session.should_acknowledge());
  session.control();
  EXPECT_FALSE(session.should_acknowledge());
  for (std::uint32_t i = 0; i <= kAcknowledgeEvery; ++i) {
    session.arrived({.sequence = ++sequence, .acknowledged = 0});
  }
  EXPECT_TRUE(session.should_acknowledge());
  session.number(numbered(1));  // every frame carries it
  EXPECT_FALSE(session.should_acknowledge());
}

TEST(Session, SendsAgainWhatTheOtherEndDoesNotHave) {
  Session session;
  for (const std::uint32_t count : {10, 11, 12}) session.number(numbered(count));
  ASSERT_TRUE(session.check_resume(1));
  EXPECT_EQ(session.unacknowledged(), 3U) << "who only asks drops nothing";
  const auto again = session.resume(1);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].sequence, 2U);
  EXPECT_TRUE(again[0].message == numbered(11));
  EXPECT_EQ(again[1].sequence, 3U);
  EXPECT_TRUE(again[1].message == numbered(12));
  EXPECT_EQ(session.unacknowledged(), 2U);
  EXPECT_EQ(session.number(numbered(13)).sequence, 4U);
  EXPECT_TRUE(session.resume(4).empty());
}

TEST(Session, DoesNotResumeWithAnotherPeer) {
  Session session;
  for (const std::uint32_t count : {10, 11, 12}) session.number(numbered(count));
  session.arrived({.sequence = 0, .acknowledged = 2});
  const auto restarted = session.check_resume(1);  // it had 2 once
  ASSERT_FALSE(restarted);
  EXPECT_EQ(restarted.error().kind, ErrorKind::lost);
  EXPECT_FALSE(session.check_resume(4));  // never sent
  EXPECT_TRUE(session.check_resume(2));
  EXPECT_TRUE(session.check_resume(3));
}

TEST(Session, IsFullWhenNothingIsAcknowledged) {
  Session session;
  for (std::size_t i = 0; i < kMaxUnacknowledgedFrames; ++i) {
    EXPECT_FALSE(session.is_full());
    session.number(numbered(1));
  }
  EXPECT_TRUE(session.is_full());
  session.arrived({.sequence = 0, .acknowledged = 1});
  EXPECT_FALSE(session.is_full());
}

// --------------------------------------------------------------------------- storm

struct Frame {
  Envelope envelope;
  Message message;
};

struct End {
  Session session;
  std::deque<Frame> outgoing;  // written, not yet arrived
  std::uint32_t sent = 0;
  std::vector<std::uint32_t> received;
};

// Two ends and a connection that breaks wherever the seed says; frames under way are lost then, as
// are some that the other end has already taken but not acknowledged.
class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed) {}

  void step() {
    End& end = ends_[random_() % 2];
    End& other = &end == &ends_[0] ? ends_[1] : ends_[0];
    switch (random_() % 16) {
      case 0:
        reconnect();
        break;
      case 1:
        end.outgoing.push_back({end.session.control(), Heartbeat{}});
        break;
      case 2:
        // A stretch of the connection is delivered twice.
        if (!end.outgoing.empty()) end.outgoing.push_front(end.outgoing.front());
        break;
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
        send(end);
        break;
      default:
        arrive(end, other);
        break;
    }
  }

  void finish() {
    reconnect();
    for (End& end : ends_) send(end);
    while (!ends_[0].outgoing.empty() || !ends_[1].outgoing.empty()) {
      if (!ends_[0].outgoing.empty()) arrive(ends_[0], ends_[1]);
      if (!ends_[1].outgoing.empty()) arrive(ends_[1], ends_[0]);
    }
    for (End& end : ends_) end.outgoing.push_back({end.session.control(), Heartbeat{}});
    arrive(ends_[0], ends_[1]);
    arrive(ends_[1], ends_[0]);
  }

  void check() {
    for (int i = 0; i < 2; ++i) {
      const End& from = ends_[i];
      const End& to = ends_[1 - i];
      ASSERT_EQ(to.received.size(), from.sent);
      for (std::uint32_t k = 0; k < from.sent; ++k) ASSERT_EQ(to.received[k], k);
      EXPECT_EQ(from.session.unacknowledged(), 0U);
    }
  }

  std::uint32_t sent() const { return ends_[0].sent + ends_[1].sent; }

 private:
  void send(End& end) {
    Message message = numbered(end.sent++);
    const Envelope envelope = end.session.number(message);
    end.outgoing.push_back({envelope, std::move(message)});
  }

  void arrive(End& from, End& to) {
    if (from.outgoing.empty()) return;
    const Frame frame = std::move(from.outgoing.front());
    from.outgoing.pop_front();
    const Arrival arrival = to.session.arrived(frame.envelope);
    ASSERT_NE(arrival, Arrival::gap);  // a connection keeps order
    if (arrival == Arrival::duplicate || frame.envelope.sequence == 0) return;
    to.received.push_back(std::get<RecallTasks>(frame.message).count);
  }

  void reconnect() {
    for (End& end : ends_) end.outgoing.clear();
    for (int i = 0; i < 2; ++i) {
      const std::uint64_t received = ends_[1 - i].session.last_received();
      const Status fits = ends_[i].session.check_resume(received);
      ASSERT_TRUE(fits) << fits.error().message;
      for (Session::Kept& kept : ends_[i].session.resume(received)) {
        const Envelope envelope{.sequence = kept.sequence,
                                .acknowledged = ends_[i].session.last_received()};
        ends_[i].outgoing.push_back({envelope, std::move(kept.message)});
      }
    }
  }

  std::mt19937_64 random_;
  End ends_[2];
};

TEST(Session, DeliversExactlyOnceInOrderThroughBrokenConnections) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Storm storm(seed);
    for (int i = 0; i < 2000; ++i) storm.step();
    storm.finish();
    storm.check();
    ASSERT_GT(storm.sent(), 100U);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace skyward::wire
