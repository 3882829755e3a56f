// The engine's end of a link: frames and times in, effects out.

#include "skyward/engine/engine_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EngineEndpointTest : public ::testing::Test, protected EngineEndpoint::Effects {
 protected:
  struct Written {
    wire::Message message;
    wire::Envelope envelope;
  };

  // A daemon on another machine; `near`: a child of ours, with descriptors.
  void begin(bool near = false) {
    EngineEndpoint::Options options;
    options.hello.pool = "pool";
    options.hello.descriptors = near;
    options.reconnects = !near;
    options.limits = {.greet = 30s, .silence = 3s, .patience = 12s, .lease = 10min};
    end.emplace(options,
                EngineEndpoint::Memory{.read = [](const wire::Blob& blob) -> Result<SharedBytes> {
                                         if (blob.descriptor < 0) {
                                           return skyward::fail(ErrorKind::exhausted, "no memory");
                                         }
                                         return SharedBytes(Bytes(blob.size));
                                       },
                                       .make = [](std::uint64_t) -> Result<wire::BlobInbox::Room> {
                                         return skyward::fail(ErrorKind::exhausted, "no memory");
                                       },
                                       .hold = [this](wire::Payload&) { return held; }},
                static_cast<EngineEndpoint::Effects&>(*this), now);
    end->start(now);
  }
  // The connection stands, and the agent has everything up to `last_received`.
  void join(std::uint64_t last_received = 0) {
    end->on_open();
    end->on_frame(
        frame(wire::Welcome{
            .protocol = kProtocolVersion, .last_received = last_received, .blob_bytes = 1 << 20}),
        now);
  }
  void begin_joined(bool near = false) {
    begin(near);
    join();
    written.clear();
  }
  static wire::DecodedFrame frame(wire::Message message, wire::Envelope envelope = {}) {
    return {.envelope = envelope, .message = std::move(message)};
  }
  // The next numbered message of the agent.
  void say(wire::Message message, std::uint64_t acknowledged = 0) {
    end->on_frame(frame(std::move(message), {.sequence = ++said, .acknowledged = acknowledged}),
                  now);
  }
  static wire::RunTask task(std::uint64_t id, std::uint64_t blob_bytes = 0, int descriptor = 7) {
    wire::RunTask run;
    run.task = TaskId{id};
    if (blob_bytes == 0) return run;
    const wire::Blob blob{.id = BlobId{id}, .size = blob_bytes, .descriptor = descriptor};
    run.arguments.buffers.push_back(wire::blob_buffer(blob, 0, blob_bytes));
    return run;
  }
  // The time of the next deadline has come, if that is before `limit`.
  bool ring(Time limit = kNever) {
    const Time next = end->next_deadline();
    if (next == kNever || next > limit) return false;
    now = std::max(now, next);
    end->on_timer(moved, now);
    return true;
  }
  template <typename T>
  int count() const {
    return static_cast<int>(std::ranges::count_if(
        written, [](const Written& one) { return std::holds_alternative<T>(one.message); }));
  }

  void connect() override { happened.emplace_back("connect"); }
  void hang_up(Duration) override { happened.emplace_back("hang up"); }
  Error with_its_words(Error why) override {
    why.message += "; it wrote: hold on";
    return why;
  }
  void write(const wire::Message& message, wire::Envelope envelope) override {
    written.push_back({message, envelope});
  }
  void on_welcome() override { happened.emplace_back("welcome"); }
  void on_message(wire::Message message) override { heard.push_back(std::move(message)); }
  void on_trouble(std::string why) override { happened.push_back("trouble: " + why); }
  void on_unreached(Error why) override { happened.push_back("unreached: " + why.message); }
  void on_recovered(Duration) override { happened.emplace_back("recovered"); }
  void on_not_reconnected() override { happened.emplace_back("not reconnected"); }
  void on_offline() override { happened.emplace_back("offline"); }
  void on_lost(Error why) override { lost.push_back(std::move(why)); }

  Time now = Time{} + 1h;
  std::uint64_t moved = 0;
  std::uint64_t said = 0;
  Status held;
  std::optional<EngineEndpoint> end;
  std::vector<Written> written;
  std::vector<std::string> happened;
  std::vector<wire::Message> heard;
  std::vector<Error> lost;
};

TEST_F(EngineEndpointTest, GreetsFirstAndDeliversWhatComes) {
  begin();
  EXPECT_THAT(happened, ElementsAre("connect"));
  EXPECT_TRUE(written.empty());
  join();
  EXPECT_THAT(happened, ElementsAre("connect", "welcome"));
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(std::get<wire::Hello>(written[0].message).pool, "pool");
  end->send(task(1));
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(written[1].envelope.sequence, 1U);
  say(wire::TaskResult{.task = TaskId{1}}, 1);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(std::get<wire::TaskResult>(heard[0]).task, TaskId{1});
  say(wire::Recalled{});
  --said;  // once more
  say(wire::Recalled{});
  EXPECT_EQ(heard.size(), 2U) << "a duplicate was delivered";
}

TEST_F(EngineEndpointTest, ABrokenConnectionIsMadeAgainAndTheRestFollows) {
  begin_joined();
  for (std::uint64_t id = 1; id <= 3; ++id) end->send(task(id));
  say(wire::Output{}, 1);
  end->on_end({.error = {ErrorKind::lost, "it broke", {}}}, 100, now);
  end->send(task(4));
  EXPECT_EQ(count<wire::RunTask>(), 3) << "written into a broken connection";
  EXPECT_EQ(happened.back(), "trouble: it broke");
  const Time broke = now;
  while (happened.back() != "connect") ASSERT_TRUE(ring(broke + 1s));
  written.clear();
  now += 50ms;
  join(2);
  EXPECT_EQ(happened.back(), "recovered");
  ASSERT_EQ(written.size(), 3U);
  EXPECT_EQ(std::get<wire::Hello>(written[0].message).last_received, 1U);
  EXPECT_EQ(written[1].envelope, (wire::Envelope{.sequence = 3, .acknowledged = 1}));
  EXPECT_EQ(std::get<wire::RunTask>(written[2].message).task, TaskId{4});
  EXPECT_TRUE(lost.empty());
}

TEST_F(EngineEndpointTest, SilenceEndsAConnectionAndThenTheNode) {
  begin_joined();
  const Time silent_since = now;
  while (happened.back() != "hang up") {
    ASSERT_TRUE(ring());
    ++moved;  // something comes all the time
    if (now > silent_since + 10s) break;
  }
  EXPECT_EQ(happened.back(), "welcome") << "a connection was dropped on which something came";
  EXPECT_GE(count<wire::Heartbeat>(), 12) << "the agent must hear of us";
  const Time quiet = now;
  while (happened.back() == "welcome") ASSERT_TRUE(ring());
  EXPECT_THAT(happened.back(), HasSubstr("no message from it for 3."));
  while (lost.empty()) {
    ASSERT_TRUE(ring(quiet + 1min));
    moved = 0;
  }
  EXPECT_EQ(lost[0].kind, ErrorKind::unreachable);
  EXPECT_THAT(lost[0].message, HasSubstr("tried"));
  EXPECT_LE(now, quiet + 20s);
  EXPECT_TRUE(end->is_hopeless());
  EXPECT_EQ(end->next_deadline(), kNever);
}

TEST_F(EngineEndpointTest, EachAttemptToReconnectThatFailsIsTold) {
  begin_joined();
  happened.clear();
  const ConnectionEnd silence{.error = {ErrorKind::lost, "no answer", {}}};
  end->on_end(silence, 0, now);
  ASSERT_TRUE(ring());
  end->on_end(silence, 0, now);
  ASSERT_TRUE(ring());
  end->on_end({.error = {ErrorKind::lost, "unreachable", {}}, .means = {.offline = true}}, 0, now);
  EXPECT_THAT(happened, ElementsAre("trouble: no answer", "connect", "not reconnected", "connect",
                                    "trouble: this computer has no network", "offline"));
}

TEST_F(EngineEndpointTest, WithoutANetworkHereTheNodeWaits) {
  begin_joined();
  happened.clear();
  end->on_end({.error = {ErrorKind::lost, "it broke", {}}}, 0, now);
  for (int tries = 0; tries < 100; ++tries) {
    ASSERT_TRUE(ring());
    end->on_end({.error = {ErrorKind::lost, "unreachable", {}}, .means = {.offline = true}}, 0,
                now);
  }
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(std::ranges::count(happened, "offline"), 100);
  EXPECT_EQ(std::ranges::count(happened, "trouble: it broke"), 1);
  EXPECT_EQ(std::ranges::count(happened, "trouble: this computer has no network"), 1);
  while (lost.empty() && ring()) {
    if (happened.back() == "connect") {
      end->on_end({.error = {ErrorKind::lost, "unreachable", {}}, .means = {.offline = true}}, 0,
                  now);
    }
  }
  ASSERT_EQ(lost.size(), 1U) << "the agent has ended by then";
  EXPECT_GT(now, Time{} + 1h + 10min);
}

TEST_F(EngineEndpointTest, EachFailedAttemptAtANewNodeIsTold) {
  begin();
  end->on_end({.error = {ErrorKind::lost, "no way there", {}}}, 0, now);
  EXPECT_THAT(happened, ElementsAre("connect", "unreached: no way there"));
  happened.clear();
  // Whatever it says, the node is lost at its deadline.
  while (lost.empty() && ring()) {
    if (happened.empty() || happened.back() != "connect") continue;
    end->on_end({.error = {ErrorKind::lost, "nor this way", {}}}, 0, now);
  }
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost.front().kind, ErrorKind::unreachable);
  EXPECT_THAT(happened, ::testing::Contains("unreached: nor this way"));
  EXPECT_LE(now, Time{} + 1h + 30s);
}

TEST_F(EngineEndpointTest, AnAttemptThatIsDroppedSaysWhatTheCommandHasSaid) {
  begin();
  while (happened.back() == "connect") ASSERT_TRUE(ring());
  ASSERT_GE(happened.size(), 3U);
  EXPECT_EQ(happened[1], "hang up");
  EXPECT_THAT(happened[2],
              HasSubstr("unreached: no message from it for 15.0 s; it wrote: hold on"));
}

TEST_F(EngineEndpointTest, ANodeWhoseLoginIsSlowIsNotLostByABreak) {
  begin();
  const Time first = now;
  while (now < first + 8s) ASSERT_TRUE(ring());
  moved = 1;
  ASSERT_TRUE(ring());
  now += 5s;  // an upload
  join();
  happened.clear();
  end->on_end({.error = {ErrorKind::lost, "it broke", {}}}, moved, now);
  moved = 0;
  const Time broken = now;
  while (now < broken + 15s) ASSERT_TRUE(ring());
  EXPECT_THAT(happened, ElementsAre("trouble: it broke", "connect"));
  join();
  EXPECT_EQ(happened.back(), "recovered");
}

TEST_F(EngineEndpointTest, AnAgentThatHasExitedIsLostAtOnce) {
  begin_joined();
  end->on_end({.error = {ErrorKind::lost, "its agent has exited", {}}, .means = {.gone = true}}, 1,
              now);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].message, "its agent has exited");
}

TEST_F(EngineEndpointTest, AFarewellSaysWhyTheNodeIsLost) {
  begin_joined();
  end->on_frame(frame(wire::Farewell{"its lease has expired"}), now);
  EXPECT_TRUE(end->has_taken_leave());
  end->on_end({.error = {ErrorKind::lost, "it closed", {}}}, 1, now);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].message, "its agent ended: its lease has expired");
}

TEST_F(EngineEndpointTest, AChildOfOursIsNotCalledAgain) {
  begin_joined(true);
  EXPECT_EQ(end->next_deadline(), kNever) << "no pulse";
  end->on_end({.error = {ErrorKind::lost, "killed by signal 9", {}}}, 1, now);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].message, "killed by signal 9");
}

TEST_F(EngineEndpointTest, AMissingFrameCostsTheConnectionOrTheChild) {
  begin_joined();
  end->on_frame(frame(wire::Output{}, {.sequence = 2}), now);
  EXPECT_TRUE(heard.empty());
  EXPECT_THAT(happened, ElementsAre("connect", "welcome", "hang up", HasSubstr("is missing")));
  begin_joined(true);
  end->on_frame(frame(wire::Output{}, {.sequence = 2}), now);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].message, "a message from its agent is missing");
}

TEST_F(EngineEndpointTest, WhatWaitsForItsDataIsWithdrawnWithoutAWord) {
  begin_joined();
  end->on_idle();
  end->send(task(1, 4 * kBlobChunkBytes));  // its first part goes
  end->send(task(2, 4 * kBlobChunkBytes));
  EXPECT_EQ(written.size(), 1U);
  end->send(wire::CancelTask{TaskId{2}});
  EXPECT_TRUE(heard.empty()) << "an answer from inside send()";
  EXPECT_TRUE(ring(now));
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(std::get<wire::TaskResult>(heard[0]).status, wire::TaskStatus::cancelled);
  EXPECT_EQ(count<wire::CancelTask>(), 0);
  end->send(wire::CancelTask{TaskId{3}});  // that the agent has
  EXPECT_EQ(count<wire::CancelTask>(), 1);
}

TEST_F(EngineEndpointTest, SmallTasksPassAGigabyte) {
  begin_joined();
  const std::uint64_t parts = 4096;
  end->send(task(1, parts * kBlobChunkBytes));
  EXPECT_TRUE(written.empty()) << "large data waits for the connection to be idle";
  for (std::uint64_t part = 0; part < parts; ++part) {
    end->on_idle();
    if (part == 5) end->send(task(2));
  }
  EXPECT_EQ(count<wire::BlobChunk>(), static_cast<int>(parts));
  EXPECT_EQ(count<wire::RunTask>(), 1);
  EXPECT_EQ(std::get<wire::RunTask>(written[6].message).task, TaskId{2});
  end->on_idle();
  EXPECT_EQ(std::get<wire::RunTask>(written.back().message).task, TaskId{1});
  EXPECT_LT(end->outbox().waiting_bytes(), 1U);
}

TEST_F(EngineEndpointTest, ATaskWhoseArgumentsCannotBeReadEnds) {
  begin_joined();
  end->send(task(1, kBlobChunkBytes, -1));
  ASSERT_TRUE(ring(now));
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(std::get<wire::TaskResult>(heard[0]).detail, "the call could not be sent: no memory");
}

TEST_F(EngineEndpointTest, AResultThatCannotBeStoredIsAnAnswerAllTheSame) {
  begin_joined(true);
  held = skyward::fail(ErrorKind::exhausted, "no descriptors");
  say(wire::TaskResult{.task = TaskId{1}, .attempt = 2});
  ASSERT_EQ(heard.size(), 1U);
  const auto& result = std::get<wire::TaskResult>(heard[0]);
  EXPECT_EQ(result.attempt, 2U);
  EXPECT_EQ(result.status, wire::TaskStatus::undelivered);
  EXPECT_EQ(result.detail, "it cannot be stored here: no descriptors");
  say(wire::StreamItem{.task = TaskId{1}, .attempt = 2});
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(std::get<wire::StreamItem>(heard[1]).undelivered,
            "it cannot be stored here: no descriptors");
  held = skyward::fail(ErrorKind::invalid, "too short");
  say(wire::TaskResult{.task = TaskId{2}});
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_THAT(lost[0].message, HasSubstr("too short"));
}

TEST_F(EngineEndpointTest, AnAgentThatSendsBlobsAndNoAnswerIsLost) {
  begin_joined();
  for (std::uint64_t id = 1; id <= kMaxFrameDescriptors; ++id) {
    say(wire::BlobChunk{.blob = BlobId{id}, .size = 1 << 20});
  }
  EXPECT_TRUE(lost.empty()) << "an answer may need so many";
  for (std::uint64_t id = 1; id <= kMaxFrameDescriptors + 1; ++id) {
    say(wire::BlobChunk{.blob = BlobId{1000 + id}, .size = 1 << 20});
  }
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_THAT(lost[0].message, HasSubstr("more blobs than a message can use"));
}

TEST_F(EngineEndpointTest, AnAgentThatAcknowledgesNothingIsLost) {
  begin_joined(true);
  for (std::size_t i = 0; i <= kMaxUnacknowledgedFrames; ++i) end->send(wire::CancelTask{});
  EXPECT_TRUE(lost.empty()) << "from inside send()";
  EXPECT_TRUE(ring(now));
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_THAT(lost[0].message, HasSubstr("has not acknowledged"));
}

TEST_F(EngineEndpointTest, ManyMessagesAreAcknowledged) {
  begin_joined(true);
  for (std::uint32_t i = 0; i <= kAcknowledgeEvery; ++i) say(wire::Output{});
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].envelope, (wire::Envelope{.acknowledged = kAcknowledgeEvery + 1}));
}

TEST_F(EngineEndpointTest, ADaemonIsToldToEnd) {
  begin_joined();
  EXPECT_TRUE(end->close());
  EXPECT_EQ(count<wire::Shutdown>(), 1);
  EXPECT_EQ(end->next_deadline(), kNever);
  say(wire::Output{});
  end->on_end({}, 1, now);
  EXPECT_TRUE(heard.empty() && lost.empty());
  begin();
  EXPECT_FALSE(end->close()) << "nobody has greeted";
}

TEST_F(EngineEndpointTest, StrangeGreetingsAreRefused) {
  begin();
  end->on_open();
  say(wire::Output{});
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].message, "its agent did not greet first");
  begin();
  end->on_frame(frame(wire::Welcome{.protocol = kProtocolVersion + 1, .version = "9"}), now);
  EXPECT_THAT(lost.back().message, HasSubstr("speaks protocol"));
  begin();
  end->on_frame(frame(wire::Welcome{.protocol = kProtocolVersion, .refusal = "no"}), now);
  EXPECT_EQ(lost.back().message, "its agent refused the connection: no");
  begin_joined();
  end->on_frame(frame(wire::Welcome{.protocol = kProtocolVersion}), now);
  EXPECT_EQ(lost.back().message, "its agent greeted twice");
  begin_joined();
  end->on_frame(skyward::fail(ErrorKind::invalid, "no magic"), now);
  EXPECT_THAT(lost.back().message, HasSubstr("cannot be read: no magic"));
}

}  // namespace
}  // namespace skyward::engine
