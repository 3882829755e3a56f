#include "skyward/agent/blob_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "skyward/wire/peer_protocol.h"

namespace skyward::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::FetchEnd;

using StreamId = BlobExchange::StreamId;

constexpr wire::ContentId kHash{1, 2, 3};
constexpr BlobId kBlobHere{7};
const std::string kWhole = "0123456789abcdefghij";

struct StreamRecorder final : BlobExchange::Effects {
  Status dial(StreamId stream, const wire::FetchBlob& ask) override {
    if (!reachable) return fail(ErrorKind::unreachable, "no way there");
    dialled.push_back(stream);
    EXPECT_EQ(ask.address, "10.0.0.2");
    return {};
  }
  std::size_t write(StreamId stream, ByteView bytes) override {
    const std::size_t taken = std::min(bytes.size(), room);
    written[stream] += as_text(bytes.first(taken));
    room -= taken;
    return taken;
  }
  void close(StreamId stream) override { closed.push_back(stream); }
  void on_fetched(wire::BlobFetched answer) override { fetched.push_back(std::move(answer)); }

  bool reachable = true;
  std::size_t room = 1000;  // that all streams have together
  std::vector<StreamId> dialled, closed;
  std::map<StreamId, std::string> written;
  std::vector<wire::BlobFetched> fetched;
};

std::string part(const std::string& text) {
  return std::string(as_text(wire::encode_peer_prefix(static_cast<std::uint32_t>(text.size())))) +
         text;
}
std::string missing() { return std::string(as_text(wire::encode_peer_prefix(wire::kPeerMissing))); }

std::string request(std::uint64_t offset) {
  return std::string(as_text(
      wire::encode_peer_request({.content = kHash, .size = kWhole.size(), .offset = offset})));
}

class BlobExchangeTest : public testing::Test {
 protected:
  static wire::FetchBlob ask(std::uint32_t attempt = 1) {
    return {.blob = kBlobHere,
            .content = kHash,
            .size = kWhole.size(),
            .attempt = attempt,
            .peer = NodeId{1},
            .address = "10.0.0.2",
            .port = 4000};
  }
  void fetch(const wire::FetchBlob& what) { exchange.fetch(what, now); }
  // The source answers, and has so much to say.
  StreamId fetch_from_source() {
    fetch(ask());
    exchange.on_open(effects.dialled.back(), now);
    effects.written.clear();
    return effects.dialled.back();
  }
  void hear(StreamId stream, const std::string& text) {
    exchange.on_bytes(stream, as_bytes(text), now);
  }
  // The engine has sent so much of it, for a task of this node.
  void have(std::size_t size) {
    const auto here = inbox.find(kBlobHere);
    const std::size_t from = here ? here->received : 0;
    ASSERT_TRUE(inbox.take({.blob = kBlobHere,
                            .size = kWhole.size(),
                            .offset = from,
                            .bytes = SharedBytes(kWhole.substr(from, size - from)),
                            .content = kHash}));
    exchange.on_blobs_changed();
  }
  void drop() {
    inbox.drop(std::vector{kBlobHere});
    exchange.on_blobs_changed();
  }
  StreamId client(std::uint64_t offset = 0) {
    const StreamId stream = exchange.attach(now);
    hear(stream, request(offset));
    return stream;
  }
  // What is due now happens.
  void settle() {
    while (exchange.next_deadline() <= now) exchange.on_timer(now);
  }
  void advance(Duration time) {
    const Time end = now + time;
    while (exchange.next_deadline() <= end) {
      now = std::max(now, exchange.next_deadline());
      exchange.on_timer(now);
    }
    now = end;
  }
  std::string text() const { return std::string(as_text(inbox.find(kBlobHere)->bytes)); }

  Time now = Time{} + 1h;
  bool has_memory = true;
  wire::BlobInbox inbox{[this](std::uint64_t size) -> Result<wire::BlobInbox::Room> {
    if (!has_memory) return fail(ErrorKind::exhausted, "no memory");
    auto bytes = std::make_shared<Bytes>(size);
    wire::BlobInbox::Room room;
    room.bytes = *bytes;
    room.blob.storage = std::move(bytes);
    return room;
  }};
  StreamRecorder effects;
  BlobExchange exchange{inbox, effects};
};

// ---- whom we read from

TEST_F(BlobExchangeTest, ABlobIsReadAndTheEngineTold) {
  fetch(ask());
  EXPECT_THAT(effects.written, IsEmpty()) << "it has not answered";
  const StreamId stream = effects.dialled.at(0);
  exchange.on_open(stream, now);
  EXPECT_EQ(effects.written[stream], request(0));
  const std::string whole = part(kWhole);
  hear(stream, whole.substr(0, 10));
  EXPECT_EQ(text(), kWhole.substr(0, 6)) << "as it comes";
  hear(stream, whole.substr(10));
  EXPECT_THAT(effects.closed, ElementsAre(stream));
  EXPECT_THAT(effects.fetched, IsEmpty()) << "never from inside an event";
  settle();
  ASSERT_EQ(effects.fetched.size(), 1U);
  EXPECT_EQ(effects.fetched[0], (wire::BlobFetched{.blob = kBlobHere,
                                                   .content = kHash,
                                                   .attempt = 1,
                                                   .end = FetchEnd::whole,
                                                   .received = kWhole.size()}));
  EXPECT_EQ(exchange.next_deadline(), kNever);
}

TEST_F(BlobExchangeTest, ItGoesOnFromWhatIsHere) {
  have(5);
  fetch(ask());
  exchange.on_open(effects.dialled.at(0), now);
  EXPECT_EQ(effects.written[effects.dialled[0]], request(5));
}

// Its source says that it lives, and has no more: its own part came to a halt for good.
TEST_F(BlobExchangeTest, ASourceThatStandsStillIsGivenUp) {
  const StreamId stream = fetch_from_source();
  advance(3s);
  hear(stream, part("01234"));
  for (int i = 0; i < 9; ++i) {
    advance(1s);
    hear(stream, part(""));
  }
  settle();
  EXPECT_THAT(effects.fetched, IsEmpty());
  advance(1s);
  EXPECT_THAT(effects.closed, ElementsAre(stream));
  ASSERT_EQ(effects.fetched.size(), 1U);
  EXPECT_EQ(effects.fetched[0].end, FetchEnd::broken);
  EXPECT_EQ(effects.fetched[0].received, 5U) << "from where the engine, or another, goes on";
  EXPECT_THAT(effects.fetched[0].detail, HasSubstr("no new data for 10 s"));
  // The engine names another source.
  fetch(ask(2));
  exchange.on_open(effects.dialled.at(1), now);
  EXPECT_EQ(effects.written[effects.dialled[1]], request(5));
  hear(effects.dialled[1], part(kWhole.substr(5)));
  settle();
  ASSERT_EQ(effects.fetched.size(), 2U);
  EXPECT_EQ(effects.fetched[1].attempt, 2U);
  EXPECT_EQ(effects.fetched[1].end, FetchEnd::whole);
  EXPECT_EQ(text(), kWhole);
}

TEST_F(BlobExchangeTest, ASilentSourceIsGivenUp) {
  fetch_from_source();
  advance(3999ms);
  EXPECT_THAT(effects.fetched, IsEmpty());
  advance(1ms);
  ASSERT_EQ(effects.fetched.size(), 1U);
  EXPECT_EQ(effects.fetched[0].end, FetchEnd::broken);
  EXPECT_THAT(effects.fetched[0].detail, HasSubstr("no data from it for 4 s"));
}

TEST_F(BlobExchangeTest, ASourceThatNeverAnswersIsUnreached) {
  fetch(ask());
  advance(4s);
  ASSERT_EQ(effects.fetched.size(), 1U);
  EXPECT_EQ(effects.fetched[0].end, FetchEnd::unreached);
  effects.reachable = false;
  fetch(ask(2));
  settle();
  EXPECT_EQ(effects.fetched.at(1).end, FetchEnd::unreached);
  EXPECT_EQ(effects.fetched.at(1).detail, "no way there");
}

// What its sources have sent in the meantime is still to be read.
TEST_F(BlobExchangeTest, NoSourceIsGivenUpForAHoldUpOfOurOwn) {
  const StreamId stream = fetch_from_source();
  fetch({.blob = BlobId{8},
         .content = {4},
         .size = kWhole.size(),
         .attempt = 1,
         .peer = NodeId{1},
         .address = "10.0.0.2",
         .port = 4000});
  const StreamId unanswered = effects.dialled.back();
  now += 4251ms;
  settle();
  EXPECT_THAT(effects.closed, IsEmpty());
  exchange.on_open(unanswered, now);
  hear(stream, part("0123"));
  for (int i = 0; i < 9; ++i) {
    advance(1s);
    hear(stream, part(""));
    hear(unanswered, part(""));
  }
  now += 1251ms;
  settle();
  EXPECT_THAT(effects.closed, IsEmpty()) << "nor for standing still";
  hear(stream, part(kWhole.substr(4)));
  settle();
  ASSERT_EQ(effects.fetched.size(), 1U);
  EXPECT_EQ(effects.fetched[0].end, FetchEnd::whole);
  // One that has nothing more to say is lost all the same.
  advance(4s);
  EXPECT_THAT(effects.closed, ElementsAre(stream, unanswered));
}

TEST_F(BlobExchangeTest, HowAConnectionEndsIsSaid) {
  fetch(ask());
  exchange.on_closed(effects.dialled[0], "handshake failed");
  exchange.on_closed(fetch_from_source(), "");
  hear(fetch_from_source(), missing());
  hear(fetch_from_source(), std::string(4, '\x7f'));  // longer than any part
  settle();
  std::vector<FetchEnd> ends;
  for (const wire::BlobFetched& fetched : effects.fetched) ends.push_back(fetched.end);
  EXPECT_THAT(ends, ElementsAre(FetchEnd::unreached, FetchEnd::broken, FetchEnd::missing,
                                FetchEnd::broken));
  EXPECT_EQ(effects.fetched[0].detail, "handshake failed");
  EXPECT_EQ(effects.fetched[1].detail, "it closed the connection");
}

TEST_F(BlobExchangeTest, TheNextOrderTakesThePlaceOfTheFormer) {
  const StreamId stream = fetch_from_source();
  hear(stream, part("012"));
  fetch({.blob = kBlobHere, .content = kHash, .size = kWhole.size(), .attempt = 2});
  EXPECT_THAT(effects.closed, ElementsAre(stream));
  hear(stream, part("345"));  // was on its way
  settle();
  ASSERT_EQ(effects.fetched.size(), 1U);
  EXPECT_EQ(effects.fetched[0].end, FetchEnd::stopped);
  EXPECT_EQ(effects.fetched[0].attempt, 2U);
  EXPECT_EQ(effects.fetched[0].received, 3U);
}

TEST_F(BlobExchangeTest, ABlobThatNobodyNeedsIsReadNoMore) {
  const StreamId stream = fetch_from_source();
  drop();
  EXPECT_THAT(effects.closed, ElementsAre(stream));
  advance(1h);
  EXPECT_THAT(effects.fetched, IsEmpty());
}

// ---- who reads from us

TEST_F(BlobExchangeTest, AClientGetsWhatComesAsItComes) {
  have(4);
  const StreamId stream = client(1);
  EXPECT_THAT(effects.written, IsEmpty()) << "once for all that happens in this turn";
  settle();
  EXPECT_EQ(effects.written[stream], part("123"));
  effects.written.clear();
  have(6);
  settle();
  EXPECT_EQ(effects.written[stream], part("45"));
}

// Its engine sends it from elsewhere.
TEST_F(BlobExchangeTest, AClientHearsAtOnceThatThereWasNoMemory) {
  has_memory = false;
  have(4);
  const StreamId stream = client();
  settle();
  EXPECT_EQ(effects.written[stream], missing());
  EXPECT_THAT(effects.closed, ElementsAre(stream));
}

TEST_F(BlobExchangeTest, AClientTakesWhatFits) {
  have(kWhole.size());
  effects.room = 10;
  const StreamId stream = client();
  settle();
  effects.room = 3;
  exchange.on_room(stream);
  settle();
  EXPECT_EQ(effects.written[stream], part(kWhole).substr(0, 13));
  effects.room = 1000;
  exchange.on_room(stream);
  settle();
  EXPECT_EQ(effects.written[stream], part(kWhole));
}

TEST_F(BlobExchangeTest, WhatIsFetchedIsPassedOn) {
  const StreamId source = fetch_from_source();
  const StreamId stream = client();
  settle();
  EXPECT_THAT(effects.written, IsEmpty());
  hear(source, part("0123"));
  settle();
  EXPECT_EQ(effects.written[stream], part("0123"));
}

TEST_F(BlobExchangeTest, AWaitingClientIsToldThatWeLive) {
  have(4);
  const StreamId stream = client(4);
  advance(2500ms);
  EXPECT_EQ(effects.written[stream], part("") + part(""));
  drop();
  settle();
  EXPECT_EQ(effects.written[stream], part("") + part("") + missing());
  EXPECT_THAT(effects.closed, ElementsAre(stream));
}

TEST_F(BlobExchangeTest, AClientWaitsAMomentForTheFirstPart) {
  const StreamId patient = client();
  advance(1s);
  EXPECT_THAT(effects.closed, IsEmpty());
  have(4);
  settle();
  EXPECT_EQ(effects.written[patient], part("0123"));
  drop();
  settle();
  effects.written.clear();
  const StreamId other = client();
  advance(3s);
  EXPECT_EQ(effects.written[other], missing());
}

TEST_F(BlobExchangeTest, AClientThatTakesNothingIsDismissed) {
  have(kWhole.size());
  effects.room = 0;
  const StreamId stream = client();
  advance(30s);
  EXPECT_THAT(effects.closed, IsEmpty());
  advance(2s);
  EXPECT_THAT(effects.closed, ElementsAre(stream));
  EXPECT_EQ(exchange.next_deadline(), kNever);
}

TEST_F(BlobExchangeTest, AClientAsksOnceAndInTime) {
  const StreamId silent = exchange.attach(now);
  advance(4s);
  const StreamId foreign = exchange.attach(now);
  hear(foreign, std::string(wire::kPeerRequestBytes, 'x'));
  have(4);
  const StreamId twice = client();
  hear(twice, request(0));
  EXPECT_THAT(effects.closed, ElementsAre(silent, foreign, twice));
}

TEST_F(BlobExchangeTest, ThereAreOnlySoManyClients) {
  for (int i = 0; i < 64; ++i) EXPECT_NE(exchange.attach(now), 0U);
  EXPECT_EQ(exchange.attach(now), 0U);
  exchange.on_closed(1, "");
  EXPECT_NE(exchange.attach(now), 0U);
}

}  // namespace
}  // namespace skyward::agent
