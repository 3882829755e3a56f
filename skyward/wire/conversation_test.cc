#include "skyward/wire/conversation.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/limits.h"

namespace skyward::wire {
namespace {

// Two ends, joined by a connection that keeps what is written until it is carried.
class ConversationTest : public ::testing::Test {
 protected:
  struct End {
    std::vector<DecodedFrame> written;
    std::vector<Message> heard;
    Conversation conversation{
        [](const Blob& blob) -> Result<SharedBytes> { return SharedBytes(Bytes(blob.size)); },
        [](std::uint64_t) -> Result<BlobInbox::Room> {
          return fail(ErrorKind::exhausted, "no memory");
        },
        [this](const Message& message, Envelope envelope) {
          written.push_back({envelope, message});
        }};

    void send(Message message) { EXPECT_TRUE(conversation.send(message)); }
  };

  void connect() {
    const std::uint64_t here = left.conversation.session().last_received();
    const std::uint64_t there = right.conversation.session().last_received();
    ASSERT_TRUE(left.conversation.check_resume(there));
    left.conversation.connect(there);
    right.conversation.connect(here);
  }
  // What was written on the way is lost.
  void break_off() {
    for (End* end : {&left, &right}) {
      end->conversation.disconnect();
      end->written.clear();
    }
  }
  // All frames from one to the other, once or `times`.
  static void carry(End& from, End& to, int times = 1) {
    for (const DecodedFrame& frame : std::exchange(from.written, {})) {
      for (int i = 0; i < times; ++i) {
        if (to.conversation.arrived(frame.envelope) == Session::Arrival::deliver) {
          to.heard.push_back(frame.message);
        }
        to.conversation.acknowledge();
      }
    }
    from.conversation.on_idle();
  }
  static Message number(std::uint64_t id) { return CancelTask{TaskId{id}}; }

  End left;
  End right;
};

TEST_F(ConversationTest, OutlivesItsConnections) {
  left.send(number(1));
  EXPECT_TRUE(left.written.empty());
  connect();
  carry(left, right, 2);
  left.send(number(2));
  left.send(number(3));
  break_off();
  left.send(number(4));
  connect();
  carry(left, right);
  ASSERT_EQ(right.heard.size(), 4U);
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(right.heard[id - 1], number(id));
}

TEST_F(ConversationTest, LargeDataWaitsForAnIdleConnection) {
  connect();
  RunTask run{.task = TaskId{1}};
  const std::uint64_t size = 3 * kBlobChunkBytes;
  run.arguments.buffers.push_back(
      blob_buffer({.id = BlobId{1}, .size = size, .descriptor = 3}, 0, size));
  left.send(run);
  EXPECT_TRUE(left.written.empty());
  left.conversation.on_idle();
  left.conversation.pump();
  EXPECT_EQ(left.written.size(), 1U) << "it is writing";
  left.send(number(2));
  EXPECT_EQ(left.written.size(), 2U) << "small messages do not wait";
  for (int i = 0; i < 4; ++i) carry(left, right);
  EXPECT_EQ(right.heard.size(), 5U);
  EXPECT_EQ(std::get<RunTask>(right.heard.back()).task, TaskId{1});
}

TEST_F(ConversationTest, WithDescriptorsNothingWaits) {
  left.conversation.use_descriptors();
  connect();
  RunTask run{.task = TaskId{1}};
  run.arguments.buffers.push_back(
      blob_buffer({.id = BlobId{1}, .size = 1 << 20, .descriptor = 3}, 0, 1 << 20));
  left.send(run);
  EXPECT_EQ(left.written.size(), 1U);
}

Message small_task(std::uint64_t id) {
  RunTask run{.task = TaskId{id}};
  run.arguments.buffers.push_back(small_buffer(SharedBytes(std::string("x"))));
  return run;
}

std::size_t tasks_in(const Message& message) {
  const auto* batch = std::get_if<RunTasks>(&message);
  return batch == nullptr ? 0 : batch->rows.size();
}

TEST_F(ConversationTest, PlainTasksOfATurnShareAFrame) {
  connect();
  left.send(small_task(1));
  left.send(small_task(2));
  EXPECT_TRUE(left.written.empty());
  EXPECT_TRUE(left.conversation.has_batch());
  left.conversation.flush();
  left.conversation.flush();
  ASSERT_EQ(left.written.size(), 1U);
  EXPECT_EQ(tasks_in(left.written[0].message), 2U);
}

TEST_F(ConversationTest, NothingOvertakesTheTasksThatAreBeingPutTogether) {
  connect();
  left.send(small_task(1));
  left.send(number(1));
  left.send(small_task(2));
  left.conversation.send_control(Farewell{});
  ASSERT_EQ(left.written.size(), 4U);
  EXPECT_EQ(tasks_in(left.written[0].message), 1U);
  EXPECT_EQ(left.written[1].message, number(1));
  EXPECT_EQ(tasks_in(left.written[2].message), 1U);
}

TEST_F(ConversationTest, TasksThatWerePutTogetherSurviveABreak) {
  connect();
  left.send(small_task(1));
  break_off();
  left.send(small_task(2));
  left.conversation.flush();
  left.send(small_task(3));
  connect();
  left.conversation.flush();
  carry(left, right, 2);
  ASSERT_EQ(right.heard.size(), 2U);
  EXPECT_EQ(tasks_in(right.heard[0]), 2U);
  EXPECT_EQ(tasks_in(right.heard[1]), 1U);
}

TEST_F(ConversationTest, ShowsLifeAndAcknowledgesWhenNothingElseDoes) {
  left.conversation.beat();
  EXPECT_TRUE(left.written.empty()) << "nobody is there";
  connect();
  left.send(number(1));
  left.conversation.beat();
  EXPECT_EQ(left.written.size(), 1U);
  left.conversation.beat();
  EXPECT_EQ(left.written.size(), 2U);
  for (std::uint64_t id = 2; id <= kAcknowledgeEvery + 1; ++id) left.send(number(id));
  carry(left, right);
  ASSERT_EQ(right.written.size(), 1U);
  carry(right, left);
  EXPECT_EQ(left.conversation.session().unacknowledged(), 0U);
}

TEST_F(ConversationTest, AnEndThatHasForgottenIsRefused) {
  connect();
  for (std::uint64_t id = 1; id <= kAcknowledgeEvery + 1; ++id) left.send(number(id));
  carry(left, right);
  carry(right, left);
  break_off();
  const Status fits = left.conversation.check_resume(0);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().kind, ErrorKind::lost);
}

}  // namespace
}  // namespace skyward::wire
