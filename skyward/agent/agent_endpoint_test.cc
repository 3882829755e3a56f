// The agent's end of a link: connections, frames and times in, effects out.

#include "skyward/agent/agent_endpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"

namespace skyward::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AgentEndpointTest : public ::testing::Test, protected AgentEndpoint::Effects {
 protected:
  struct Written {
    AgentEndpoint::ConnectionId connection;
    wire::Message message;
    wire::Envelope envelope;
  };

  void SetUp() override { begin(true); }
  void begin(bool outlives) {
    end.emplace(AgentEndpoint::Options{.outlives = outlives, .welcome = {.blob_bytes = 1000}},
                AgentEndpoint::Memory{.read = [](const wire::Blob& blob) -> Result<SharedBytes> {
                                        if (blob.descriptor < 0) {
                                          return skyward::fail(ErrorKind::exhausted, "no memory",
                                                               "wait");
                                        }
                                        return SharedBytes(Bytes(blob.size));
                                      },
                                      .make = [](std::uint64_t) -> Result<wire::BlobInbox::Room> {
                                        return skyward::fail(ErrorKind::exhausted, "no memory");
                                      }},
                static_cast<AgentEndpoint::Effects&>(*this));
  }
  static wire::Hello hello(std::uint64_t last_received = 0, std::string token = "secret") {
    return {.protocol = kProtocolVersion,
            .pool = "pool",
            .last_received = last_received,
            .token = std::move(token)};
  }
  // A connection on which the engine greets.
  AgentEndpoint::ConnectionId call(const wire::Hello& greeting) {
    const auto connection = end->attach(now);
    end->on_frame(connection, wire::DecodedFrame{.envelope = {}, .message = greeting});
    return connection;
  }
  void say(AgentEndpoint::ConnectionId connection, wire::Message message,
           std::uint64_t acknowledged = 0) {
    end->on_frame(connection,
                  wire::DecodedFrame{.envelope = {.sequence = ++said, .acknowledged = acknowledged},
                                     .message = std::move(message)});
  }
  static wire::TaskResult result(std::uint64_t task, std::uint64_t blob_bytes = 0,
                                 int descriptor = 7) {
    wire::TaskResult done{.task = TaskId{task}};
    if (blob_bytes == 0) return done;
    const wire::Blob blob{.size = blob_bytes, .descriptor = descriptor};
    done.payload.buffers.push_back(wire::blob_buffer(blob, 0, blob_bytes));
    return done;
  }
  const wire::Welcome& welcome() const { return std::get<wire::Welcome>(written.back().message); }

  void write(AgentEndpoint::ConnectionId connection, const wire::Message& message,
             wire::Envelope envelope) override {
    written.push_back({connection, message, envelope});
  }
  void close(AgentEndpoint::ConnectionId connection) override {
    happened.push_back(fmt::format("close {}", connection));
  }
  void on_heard() override { ++heard; }
  void on_message(const wire::Message& message) override { messages.push_back(message); }
  void on_fetch(const wire::FetchBlob&) override { happened.emplace_back("fetch"); }
  void on_blobs_changed() override { happened.emplace_back("blobs changed"); }
  void on_closed(std::string reason) override { happened.push_back("closed: " + reason); }
  void log(const std::string& text) override { happened.push_back("log: " + text); }

  Time now = Time{} + 1h;
  std::uint64_t said = 0;
  int heard = 0;
  std::optional<AgentEndpoint> end;
  std::vector<Written> written;
  std::vector<wire::Message> messages;
  std::vector<std::string> happened;
};

TEST_F(AgentEndpointTest, GreetsBackAndDelivers) {
  const auto connection = call(hello());
  EXPECT_EQ(welcome().refusal, "");
  EXPECT_EQ(welcome().blob_bytes, 1000U);
  EXPECT_EQ(end->pool(), "pool");
  EXPECT_EQ(heard, 1);
  say(connection, wire::CancelTask{TaskId{1}});
  end->on_frame(connection, wire::DecodedFrame{.message = wire::Heartbeat{}});
  EXPECT_EQ(heard, 3);
  EXPECT_EQ(messages.size(), 1U) << "heartbeats are not delivered";
  end->send(result(1));
  EXPECT_EQ(written.back().envelope, (wire::Envelope{.sequence = 1, .acknowledged = 1}));
}

TEST_F(AgentEndpointTest, ANewLineReplacesTheOldOneAndGetsTheRest) {
  const auto first = call(hello());
  for (std::uint64_t task = 1; task <= 3; ++task) end->send(result(task));
  written.clear();
  const auto second = call(hello(2));
  EXPECT_THAT(happened, ElementsAre("close 1", "log: the engine has reconnected"));
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(written[0].connection, second);
  EXPECT_TRUE(std::holds_alternative<wire::Welcome>(written[0].message));
  EXPECT_EQ(written[1].envelope.sequence, 3U);
  end->on_idle(first);  // late
  end->on_connection_closed(second, "it broke");
  EXPECT_EQ(happened.back(), "log: it broke");
  EXPECT_FALSE(end->is_connected());
  end->send(result(4));
  EXPECT_EQ(written.size(), 2U);
  call(hello(3));
  EXPECT_EQ(std::get<wire::TaskResult>(written.back().message).task, TaskId{4});
}

TEST_F(AgentEndpointTest, StrangersAreRefused) {
  call(hello());
  const auto stranger = call(hello(0, "another"));
  EXPECT_EQ(welcome().refusal, "this agent serves another pool");
  EXPECT_EQ(written.back().connection, stranger);
  EXPECT_TRUE(end->is_connected());
  wire::Hello other = hello();
  other.node = NodeId{1};
  call(other);
  EXPECT_EQ(welcome().refusal, "this agent serves another pool");
  other = hello();
  other.pool = "another";
  call(other);
  EXPECT_EQ(welcome().refusal, "this agent serves another pool");
  call({.protocol = kProtocolVersion + 1});
  EXPECT_THAT(welcome().refusal, HasSubstr("use the same version of Skyward on both sides"));
  call(hello(7));
  EXPECT_THAT(welcome().refusal, HasSubstr("the session has changed"));
  const auto connection = end->attach(now);
  end->on_frame(connection, wire::DecodedFrame{.message = wire::Output{}});
  EXPECT_EQ(happened.back(), "log: the engine's first message is not a greeting");
  end->on_frame(1, wire::DecodedFrame{.message = hello()});
  EXPECT_EQ(happened.back(), "log: the engine greeted twice");
}

TEST_F(AgentEndpointTest, ADaemonThatNobodyGreetsEndsWithItsLastLine) {
  const auto first = end->attach(now);
  const auto second = end->attach(now + 1s);
  end->on_connection_closed(first, "it broke");
  EXPECT_THAT(happened, ElementsAre("close 1", "log: it broke"));
  EXPECT_EQ(end->next_deadline(), now + 1s + kGreetTimeout);
  end->on_timer(now + 1s + kGreetTimeout);
  EXPECT_EQ(happened.back(), "closed: the engine sent no greeting in time");
  EXPECT_EQ(end->attach(now), second + 1);
  EXPECT_EQ(end->next_deadline(), kNever);
}

TEST_F(AgentEndpointTest, AChildEndsWithItsLine) {
  begin(false);
  const auto connection = call(hello());
  EXPECT_EQ(end->next_deadline(), kNever);
  end->say_farewell("it does not need one");
  EXPECT_EQ(written.size(), 1U);
  end->on_connection_closed(connection, "");
  EXPECT_THAT(happened, ElementsAre("close 1", "closed: "));
}

TEST_F(AgentEndpointTest, ShowsThatItLivesWhenItSaysNothingElse) {
  call(hello());
  written.clear();
  end->start_heartbeats(1s, now);
  const auto turn = [&] { end->on_timer(now = end->next_deadline()); };
  EXPECT_EQ(written.size(), 1U);
  end->send(result(1));
  turn();
  EXPECT_EQ(written.size(), 2U) << "the result said so";
  turn();
  ASSERT_EQ(written.size(), 3U);
  EXPECT_TRUE(std::holds_alternative<wire::Heartbeat>(written[2].message));
}

TEST_F(AgentEndpointTest, LargeResultsGoInPartsAndBackUp) {
  const auto connection = call(hello());
  written.clear();
  end->send(result(1, 40 * kBlobChunkBytes));
  EXPECT_THAT(written, IsEmpty());
  EXPECT_TRUE(end->is_backed_up(0));
  for (int part = 0; part < 40; ++part) end->on_idle(connection);
  EXPECT_FALSE(end->is_backed_up(0));
  EXPECT_TRUE(end->is_backed_up(std::size_t{9} << 20));
  end->on_idle(connection);
  EXPECT_EQ(std::get<wire::TaskResult>(written.at(40).message).task, TaskId{1});
}

TEST_F(AgentEndpointTest, AResultThatCannotBeSentIsAnAnswerAllTheSame) {
  call(hello());
  end->send(result(1, kBlobChunkBytes, -1));
  const auto& sent = std::get<wire::TaskResult>(written.back().message);
  EXPECT_EQ(sent.status, wire::TaskStatus::undelivered);
  EXPECT_EQ(sent.detail, "it cannot be sent: no memory; wait");
}

TEST_F(AgentEndpointTest, AnItemThatCannotBeSentSaysWhy) {
  call(hello());
  end->send(wire::StreamItem{
      .task = TaskId{1}, .attempt = 2, .payload = result(1, kBlobChunkBytes, -1).payload});
  const auto& sent = std::get<wire::StreamItem>(written.back().message);
  EXPECT_EQ(sent.attempt, 2U);
  EXPECT_THAT(sent.payload.buffers, IsEmpty());
  EXPECT_EQ(sent.undelivered, "it cannot be sent: no memory; wait");
}

TEST_F(AgentEndpointTest, BlobsAreForThoseWhoPassThemOn) {
  const auto connection = call(hello());
  say(connection, wire::BlobChunk{.blob = BlobId{1}, .size = 4, .bytes = SharedBytes(Bytes(4))});
  say(connection, wire::FetchBlob{.blob = BlobId{2}});
  say(connection, wire::DropBlobs{{BlobId{1}}});
  EXPECT_THAT(happened, ElementsAre("blobs changed", "fetch", "blobs changed"));
  EXPECT_EQ(messages.size(), 1U) << "the core hears of what is dropped alone";
  wire::RunTask run;
  run.arguments.buffers.push_back(wire::blob_buffer({.id = BlobId{1}, .size = 4}, 0, 4));
  say(connection, run);
  EXPECT_THAT(happened.back(), HasSubstr("was not sent before it was used"));
  EXPECT_EQ(messages.size(), 2U) << "the core refuses it";
  say(connection, wire::BlobChunk{.blob = BlobId{3}, .size = 4, .offset = 2});
  EXPECT_THAT(happened, ::testing::Contains(HasSubstr("came out of place")));
  EXPECT_FALSE(end->is_connected());
}

TEST_F(AgentEndpointTest, SaysWhichBlobsItHadNoRoomFor) {
  const auto connection = call(hello());
  say(connection, wire::BlobChunk{.blob = BlobId{1}, .size = 4, .bytes = SharedBytes(Bytes(4))});
  written.clear();
  wire::RunTask run;
  for (const std::uint64_t offset : {0U, 2U}) {
    run.arguments.buffers.push_back(wire::blob_buffer({.id = BlobId{1}, .size = 4}, offset, 2));
  }
  say(connection, run);
  EXPECT_EQ(happened.back(), "log: no memory");
  EXPECT_EQ(messages.size(), 1U) << "the core refuses it";
  ASSERT_EQ(written.size(), 1U);
  const auto& told = std::get<wire::BlobFetched>(written.back().message);
  EXPECT_EQ(told.blob, BlobId{1});
  EXPECT_EQ(told.attempt, wire::kNotAsked);
  EXPECT_EQ(told.end, wire::FetchEnd::missing);
}

TEST_F(AgentEndpointTest, ALineThatHasGreetedStays) {
  call(hello());
  end->on_timer(now + kGreetTimeout);
  EXPECT_TRUE(end->is_connected());
  EXPECT_EQ(end->next_deadline(), kNever);
}

TEST_F(AgentEndpointTest, SaysWhatHasArrived) {
  const auto connection = call(hello());
  EXPECT_EQ(welcome().last_received, 0U);
  for (std::uint64_t task = 1; task <= 2; ++task) say(connection, wire::CancelTask{TaskId{task}});
  call(hello());
  EXPECT_EQ(welcome().last_received, 2U) << "that is not sent again";
}

TEST_F(AgentEndpointTest, AcknowledgesWhatItDoesNotAnswer) {
  const auto connection = call(hello());
  written.clear();
  for (std::uint64_t task = 0; task <= kAcknowledgeEvery; ++task) {
    say(connection, wire::CancelTask{TaskId{task}});
  }
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written.back().envelope.acknowledged, kAcknowledgeEvery + 1);
}

TEST_F(AgentEndpointTest, WhereMemoryIsPassedNoBytesAre) {
  wire::Hello greeting = hello();
  greeting.descriptors = true;
  const auto connection = call(greeting);
  EXPECT_EQ(welcome().blob_bytes, 0U);
  wire::RunTask run;
  run.arguments.buffers.push_back(
      wire::blob_buffer({.id = BlobId{1}, .size = 4, .descriptor = 7}, 0, 4));
  say(connection, run);
  EXPECT_THAT(happened, IsEmpty());
  EXPECT_EQ(messages.size(), 1U);
}

TEST_F(AgentEndpointTest, OutputWaitsWhenNobodyTakesIt) {
  call(hello());
  for (std::uint64_t task = 1; task <= kMaxUnacknowledgedFrames / 4; ++task) {
    end->send(result(task));
  }
  EXPECT_FALSE(end->is_backed_up(0));
  end->send(result(1));
  EXPECT_TRUE(end->is_backed_up(0)) << "so many were not acknowledged";

  begin(true);
  const auto next = call(hello());
  end->on_connection_closed(next, "it broke");
  for (std::uint64_t task = 1; task <= 1024; ++task) end->send(result(task));
  EXPECT_FALSE(end->is_backed_up(0));
  end->send(result(1));
  EXPECT_TRUE(end->is_backed_up(0)) << "so many wait for a connection";

  begin(true);
  end->on_connection_closed(call(hello()), "it broke");
  wire::Output output;
  output.lines.push_back({.text = std::string(std::size_t{9} << 20, 'x')});
  end->send(std::move(output));
  EXPECT_TRUE(end->is_backed_up(0)) << "so much waits for a connection";
}

TEST_F(AgentEndpointTest, AChildsEndClosesEveryLine) {
  begin(false);
  const auto first = end->attach(now);
  end->attach(now);
  end->on_connection_closed(first, "it broke");
  EXPECT_THAT(happened, ElementsAre("close 1", "close 2", "closed: it broke"));
}

}  // namespace
}  // namespace skyward::agent
