// Both ends of blobs in parts: what leaves an Outbox arrives in a BlobInbox as it was.

#include "skyward/wire/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "skyward/spec/limits.h"
#include "skyward/wire/blob_inbox.h"

namespace skyward::wire {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBig = 3 * kBlobChunkBytes + 17;

// Blobs whose memory is a string; the descriptor only names it.
class Store {
 public:
  Blob make(std::uint64_t id, std::size_t size, char fill) {
    auto bytes = std::make_shared<std::string>(size, fill);
    for (std::size_t i = 0; i < size; i += 1000) (*bytes)[i] = static_cast<char>(i / 1000);
    Blob blob{.id = BlobId{id}, .size = size, .descriptor = ++last_, .storage = bytes};
    kept_[last_] = bytes;
    return blob;
  }
  Blob named(Blob blob, std::uint8_t content) {
    blob.content[0] = content;
    return blob;
  }
  Result<SharedBytes> read(const Blob& blob) {
    ++reads;
    if (broken) return fail(ErrorKind::exhausted, "no memory to read");
    const auto& bytes = kept_.at(blob.descriptor);
    return SharedBytes(bytes, as_bytes(*bytes));
  }
  std::string text(int descriptor) { return *kept_.at(descriptor); }

  int reads = 0;
  bool broken = false;

 private:
  int last_ = 10;
  std::map<int, std::shared_ptr<std::string>> kept_;
};

class OutboxTest : public testing::Test {
 protected:
  RunTask call(std::uint64_t task, const std::vector<Blob>& blobs, const std::string& body = {}) {
    RunTask run;
    run.task = TaskId{task};
    run.arguments.buffers.push_back(small_buffer(SharedBytes(std::string("pickle"))));
    for (const Blob& blob : blobs) run.arguments.buffers.push_back(blob_buffer(blob, 0, blob.size));
    if (!body.empty()) run.body = small_buffer(SharedBytes(std::string(body)));
    return run;
  }
  void push(Message message) {
    const Status taken = outbox.push(message);
    ASSERT_TRUE(taken) << taken.error().message;
  }
  // What leaves while nothing else is on the wire, as words: "chunk 1", "run 7", "drop 1".
  std::vector<std::string> drain() {
    std::vector<std::string> words;
    while (true) {
      outbox.sanity_check();
      auto message = outbox.next_urgent();
      if (!message) message = outbox.next_bulk();
      if (!message) return words;
      words.push_back(carry(*message));
    }
  }
  std::string carry(Message& message) {
    if (const auto* chunk = std::get_if<BlobChunk>(&message)) {
      EXPECT_LE(chunk->bytes.size(), kBlobChunkBytes);
      EXPECT_TRUE(inbox.take(*chunk));
      return "chunk " + std::to_string(chunk->blob.value);
    }
    if (const auto* drop = std::get_if<DropBlobs>(&message)) {
      inbox.drop(drop->blobs);
      return "drop " + std::to_string(drop->blobs.front().value);
    }
    if (std::holds_alternative<CancelTask>(message)) return "cancel";
    const Status filled = inbox.fill_in(message);
    EXPECT_TRUE(filled) << filled.error().message;
    arrived.push_back(message);
    if (const auto* run = std::get_if<RunTask>(&message)) {
      return "run " + std::to_string(run->task.value) + (run->body.empty() ? "" : " with body");
    }
    inbox.drop_those_of(message);
    return "answer " + std::to_string(std::get_if<TaskResult>(&message) != nullptr
                                          ? std::get<TaskResult>(message).task.value
                                          : std::get<StreamItem>(message).task.value);
  }

  // The parts go, but the other end has no memory for them, and says so.
  void send_in_vain() {
    theirs.broken = true;
    while (auto message = outbox.next_bulk()) {
      if (const auto* chunk = std::get_if<BlobChunk>(&*message)) {
        EXPECT_TRUE(inbox.take(*chunk));
      } else {
        EXPECT_FALSE(inbox.fill_in(*message));
      }
    }
    theirs.broken = false;
  }
  static BlobFetched had_no_room(std::uint64_t name) {
    return {.blob = BlobId{name}, .attempt = kNotAsked, .end = FetchEnd::missing};
  }

  Store theirs;
  Store ours;
  Outbox outbox{[this](const Blob& blob) { return ours.read(blob); }};
  BlobInbox inbox{[this](std::uint64_t size) -> Result<BlobInbox::Room> {
    if (theirs.broken) return fail(ErrorKind::exhausted, "no memory to store");
    BlobInbox::Room room;
    room.blob = theirs.make(0, size, '?');
    const auto bytes = std::static_pointer_cast<const std::string>(room.blob.storage);
    room.bytes = std::as_writable_bytes(std::span(const_cast<std::string&>(*bytes)));
    return room;
  }};
  std::vector<Message> arrived;
};

TEST_F(OutboxTest, ABlobArrivesInPartsBeforeItsMessage) {
  const Blob blob = ours.make(5, kBig, 'x');
  push(call(1, {blob}));
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 1", "chunk 1", "chunk 1", "chunk 1", "run 1"));
  const auto& run = std::get<RunTask>(arrived.at(0));
  EXPECT_EQ(theirs.text(run.arguments.buffers.at(1).blob.descriptor), ours.text(blob.descriptor));
  EXPECT_TRUE(outbox.empty());
}

TEST_F(OutboxTest, SmallTasksPassABigOne) {
  push(call(1, {ours.make(5, kBig, 'x')}));
  auto part = outbox.next_bulk();
  ASSERT_TRUE(part);
  carry(*part);
  push(call(2, {}));
  push(CancelTask{TaskId{9}});
  EXPECT_THAT(drain(),
              testing::ElementsAre("run 2", "cancel", "chunk 1", "chunk 1", "chunk 1", "run 1"));
}

TEST_F(OutboxTest, TheSameBlobAndTheSameContentGoOnce) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  const Blob twin = ours.named(ours.make(6, kBig, 'x'), 1);
  push(call(1, {blob}));
  push(call(2, {blob}));
  push(call(3, {twin, blob}));
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 1", "chunk 1", "chunk 1", "chunk 1", "run 1",
                                            "run 2", "run 3"));
  EXPECT_EQ(ours.reads, 1);
  push(call(4, {twin}));
  EXPECT_THAT(drain(), testing::ElementsAre("run 4"));
}

TEST_F(OutboxTest, WhatNobodyUsesStaysUpToTheBudget) {
  outbox.set_budget(kBig + 1);
  const Blob first = ours.named(ours.make(5, kBig, 'x'), 1);
  const Blob second = ours.named(ours.make(6, kBig, 'y'), 2);
  push(call(1, {first}));
  push(call(2, {second}));
  drain();
  push(DropBlobs{{BlobId{5}}});
  EXPECT_THAT(drain(), testing::IsEmpty());
  push(call(3, {ours.named(ours.make(7, kBig, 'x'), 1)}));
  EXPECT_THAT(drain(), testing::ElementsAre("run 3"));
  push(DropBlobs{{BlobId{6}}});
  push(DropBlobs{{BlobId{7}}});  // the other has been unused for longer
  EXPECT_THAT(drain(), testing::ElementsAre("drop 2"));
  push(call(4, {second}));
  EXPECT_THAT(drain(), testing::Contains("chunk 3").Times(4));
}

TEST_F(OutboxTest, NoMoreStayThanANodeHasDescriptorsFor) {
  outbox.set_budget(2 * kMaxKeptBlobs * kBig);
  for (std::uint32_t nth = 1; nth <= kMaxKeptBlobs + 2; ++nth) {
    push(call(nth, {ours.make(nth, kBig, 'x')}));
    drain();
    push(DropBlobs{{BlobId{nth}}});
    const auto said = drain();
    EXPECT_EQ(said.size(), nth > kMaxKeptBlobs ? 1U : 0U) << nth;
  }
}

TEST_F(OutboxTest, WithoutABudgetNothingStays) {
  push(call(1, {ours.make(5, kBig, 'x')}));
  drain();
  push(DropBlobs{{BlobId{5}}});
  EXPECT_THAT(drain(), testing::ElementsAre("drop 1"));
  EXPECT_EQ(inbox.count(), 0U);
}

TEST_F(OutboxTest, WhatAHeldTaskUsesStays) {
  const Blob first = ours.make(1, kBlobChunkBytes, 'a');
  push(call(1, {first}));
  EXPECT_EQ(drain(), (std::vector<std::string>{"chunk 1", "run 1"}));
  push(call(2, {first, ours.make(2, kBlobChunkBytes, 'b')}));
  push(DropBlobs{{BlobId{1}, BlobId{2}}});  // as when everything is called off
  EXPECT_EQ(drain(), (std::vector<std::string>{"chunk 2", "run 2", "drop 1", "drop 2"}));
}

TEST_F(OutboxTest, AWithdrawnTaskGivesTheWayFree) {
  push(call(1, {ours.make(5, kBig, 'x')}));
  auto part = outbox.next_bulk();
  ASSERT_TRUE(part);
  carry(*part);
  push(call(2, {ours.make(6, 10, 'y')}));
  const auto run = outbox.withdraw(TaskId{1});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->task.value, 1U);
  push(DropBlobs{{BlobId{5}}});  // the engine's answer to the end of the task
  EXPECT_THAT(drain(), testing::ElementsAre("drop 1", "chunk 2", "run 2"));
  EXPECT_EQ(inbox.count(), 1U);
  EXPECT_FALSE(outbox.withdraw(TaskId{2})) << "it has gone";
}

// Whatever the order: looking through all that is held for each would be quadratic.
TEST_F(OutboxTest, ToWithdrawATaskCostsTheSameHoweverManyAreHeld) {
  constexpr std::uint64_t kTasks = 20000;
  const Blob blob = ours.make(5, kBig, 'x');
  for (std::uint64_t task = 1; task <= kTasks; ++task) push(call(task, {blob}));
  outbox.sanity_check();
  for (std::uint64_t task = kTasks; task >= 1; --task) ASSERT_TRUE(outbox.withdraw(TaskId{task}));
  EXPECT_LE(outbox.looked_at(), 2 * kTasks);
  EXPECT_TRUE(outbox.empty());
  push(DropBlobs{{blob.id}});
  EXPECT_EQ(outbox.waiting_bytes(), 0U);
  outbox.sanity_check();
}

TEST_F(OutboxTest, WhatFollowsAWithdrawnTaskGoesWithIt) {
  push(call(1, {ours.make(5, 10, 'x')}));
  push(StreamCredit{.task = TaskId{1}, .count = 3});
  push(call(2, {ours.make(6, 20, 'y')}));
  push(StreamCredit{.task = TaskId{1}, .count = 4});
  outbox.sanity_check();
  ASSERT_TRUE(outbox.withdraw(TaskId{1}));
  outbox.sanity_check();
  EXPECT_EQ(outbox.waiting_bytes(), 30U) << "task 1 may come again";
  push(DropBlobs{{BlobId{5}}});
  EXPECT_EQ(outbox.waiting_bytes(), 20U);
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 2", "run 2"));
  EXPECT_EQ(outbox.waiting_bytes(), 0U);
}

TEST_F(OutboxTest, TheBodyGoesWithWhicheverTaskGoesFirst) {
  push(call(1, {ours.make(5, kBig, 'x')}, "body"));
  push(call(2, {}));  // the core counts on the first to bring the body
  auto message = outbox.next_urgent();
  ASSERT_TRUE(message);
  EXPECT_EQ(carry(*message), "run 2 with body");
  push(call(3, {}));
  EXPECT_THAT(drain(), testing::ElementsAre("run 3", "chunk 1", "chunk 1", "chunk 1", "chunk 1",
                                            "run 1 with body"));
}

TEST_F(OutboxTest, TheBodyOfAWithdrawnTaskIsNotLost) {
  push(call(1, {ours.make(5, kBig, 'x')}, "body"));
  ASSERT_TRUE(outbox.withdraw(TaskId{1}));
  push(call(2, {}));
  EXPECT_THAT(drain(), testing::ElementsAre("run 2 with body"));
}

TEST_F(OutboxTest, ALargeBodyIsABlobForAllItsTasks) {
  RunTask first = call(1, {});
  first.body = blob_buffer(ours.make(5, kBig, 'f'), 0, kBig);
  push(first);
  push(call(2, {}));
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 1", "chunk 1", "chunk 1", "chunk 1",
                                            "run 1 with body", "run 2 with body"));
}

TEST_F(OutboxTest, AnswersOfOneTaskStayInOrder) {
  StreamItem item{.task = TaskId{4}};
  item.payload.buffers.push_back(blob_buffer(ours.make(0, kBig, 'i'), 0, kBig));
  push(item);
  push(StreamItem{.task = TaskId{4}});
  push(TaskResult{.task = TaskId{8}});
  push(TaskResult{.task = TaskId{4}});
  EXPECT_THAT(drain(), testing::ElementsAre("answer 8", "chunk 1", "chunk 1", "chunk 1", "chunk 1",
                                            "answer 4", "answer 4", "answer 4"));
  EXPECT_EQ(inbox.count(), 0U) << "a result takes its blobs along";
}

TEST_F(OutboxTest, OneAnswerMayHaveSeveralBlobs) {
  const Blob one = ours.make(0, 100, 'a');
  const Blob two = ours.make(0, 200, 'b');
  TaskResult result{.task = TaskId{4}};
  result.payload.buffers = {blob_buffer(one, 0, 50), blob_buffer(two, 10, 20),
                            blob_buffer(one, 50, 50)};
  push(result);
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 1", "chunk 2", "answer 4"));
  const auto& buffers = std::get<TaskResult>(arrived.at(0)).payload.buffers;
  EXPECT_EQ(theirs.text(buffers[0].blob.descriptor), ours.text(one.descriptor));
  EXPECT_EQ(theirs.text(buffers[1].blob.descriptor), ours.text(two.descriptor));
  EXPECT_EQ(buffers[2].blob.descriptor, buffers[0].blob.descriptor);
  EXPECT_EQ(buffers[1].offset, 10U);
}

TEST_F(OutboxTest, ABlobThatCannotBeReadFailsItsMessageAlone) {
  ours.broken = true;
  Message message = call(1, {ours.make(5, kBig, 'x')}, "body");
  const Status taken = outbox.push(message);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message, HasSubstr("no memory to read"));
  EXPECT_EQ(std::get<RunTask>(message).task.value, 1U);
  push(call(2, {}));
  EXPECT_THAT(drain(), testing::ElementsAre("run 2 with body"));
}

TEST_F(OutboxTest, WithoutRoomTheReceiverKnowsWhy) {
  theirs.broken = true;
  push(call(1, {ours.make(5, kBig, 'x')}));
  while (auto part = outbox.next_bulk()) {
    if (const auto* chunk = std::get_if<BlobChunk>(&*part)) {
      EXPECT_TRUE(inbox.take(*chunk));
      continue;
    }
    const Status filled = inbox.fill_in(*part);
    ASSERT_FALSE(filled);
    EXPECT_EQ(filled.error().kind, ErrorKind::exhausted);
    EXPECT_THAT(filled.error().message, HasSubstr("no memory to store"));
  }
}

TEST_F(OutboxTest, WhatTheReceiverHadNoRoomForIsSentAgain) {
  outbox.set_budget(1000);
  push(call(1, {ours.named(ours.make(5, 10, 'x'), 1)}));
  send_in_vain();
  EXPECT_FALSE(outbox.take(had_no_room(1)));
  push(DropBlobs{{BlobId{5}}});  // the engine's answer to the end of the task
  push(call(2, {ours.named(ours.make(6, 10, 'x'), 1)}));
  EXPECT_THAT(drain(), testing::ElementsAre("drop 1", "chunk 2", "run 2"));
  push(DropBlobs{{BlobId{6}}});
  EXPECT_FALSE(outbox.take(had_no_room(2))) << "nobody uses it at present";
  push(call(3, {ours.named(ours.make(7, 10, 'x'), 1)}));
  EXPECT_THAT(drain(), testing::ElementsAre("drop 2", "chunk 3", "run 3"));
}

TEST_F(OutboxTest, WhatTheReceiverHadNoRoomForIsSentAgainWhileTasksUseIt) {
  const Blob blob = ours.make(5, 10, 'x');
  push(call(1, {blob}));
  send_in_vain();
  push(call(2, {blob, ours.make(6, kBig, 'y')}));  // waits for the other one
  EXPECT_FALSE(outbox.take(had_no_room(1)));
  EXPECT_FALSE(outbox.take(had_no_room(1))) << "each refused task says so";
  push(call(3, {blob}));
  ASSERT_TRUE(outbox.withdraw(TaskId{2}));
  EXPECT_THAT(drain(), testing::ElementsAre("drop 1", "chunk 3", "run 3"));
}

TEST_F(OutboxTest, MemoryThatEndsHalfWayIsToldToo) {
  BlobInbox small([this](std::uint64_t size) -> Result<BlobInbox::Room> {
    const auto write = [](std::uint64_t offset, ByteView) -> Status {
      if (offset == 0) return {};
      return fail(ErrorKind::exhausted, "no memory for more");
    };
    return BlobInbox::Room{.bytes = {}, .blob = theirs.make(0, size, '?'), .write = write};
  });
  push(call(1, {ours.make(5, kBig, 'x')}));
  Status filled;
  while (auto part = outbox.next_bulk()) {
    if (const auto* chunk = std::get_if<BlobChunk>(&*part)) {
      EXPECT_TRUE(small.take(*chunk)) << "the rest is passed over";
    } else {
      filled = small.fill_in(*part);
    }
  }
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(filled.error().message, HasSubstr("no memory for more"));
}

TEST_F(OutboxTest, PartsOutOfPlaceAreRefused) {
  const SharedBytes ten(std::string(10, 'x'));
  EXPECT_FALSE(inbox.take({BlobId{1}, 20, 5, ten}));
  ASSERT_TRUE(inbox.take({BlobId{2}, 20, 0, ten}));
  EXPECT_FALSE(inbox.take({BlobId{2}, 20, 0, ten})) << "twice";
  EXPECT_FALSE(inbox.take({BlobId{2}, 15, 10, ten})) << "another size";
  Message early = call(1, {});
  std::get<RunTask>(early).arguments.buffers.push_back(
      blob_buffer({.id = BlobId{2}, .size = 20}, 0, 20));
  EXPECT_EQ(inbox.fill_in(early).error().kind, ErrorKind::invalid) << "half of it has come";
}

// ---- blobs that the other end gets from a third

class FetchTest : public OutboxTest {
 protected:
  // The other end is told to get the blob elsewhere, and learns under which name.
  FetchBlob ask(const Blob& blob, std::uint32_t attempt, std::uint16_t port = 4000) {
    EXPECT_FALSE(outbox.push(FetchBlob{.blob = blob.id,
                                       .content = blob.content,
                                       .size = blob.size,
                                       .attempt = attempt,
                                       .port = port}));
    auto message = outbox.next_urgent();
    if (!message) return {};
    const FetchBlob told = std::get<FetchBlob>(*message);
    EXPECT_TRUE(inbox.expect(told.blob, told.content, told.size));
    return told;
  }
  // So much of it arrives there.
  void arrive(const FetchBlob& told, const Blob& blob, std::size_t from, std::size_t to) {
    const std::string bytes = ours.text(blob.descriptor);
    EXPECT_TRUE(inbox.append(told.blob, as_bytes(bytes).subspan(from, to - from)));
  }
  BlobFetched answer(const FetchBlob& told, FetchEnd end) {
    return {.blob = told.blob,
            .content = told.content,
            .attempt = told.attempt,
            .end = end,
            .received = inbox.find(told.blob)->received};
  }
  std::string arrived_text() {
    const auto& run = std::get<RunTask>(arrived.back());
    return theirs.text(run.arguments.buffers.at(1).blob.descriptor);
  }
};

TEST_F(FetchTest, ATaskWaitsForTheWordThatItsBlobIsThere) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  const FetchBlob told = ask(blob, 1);
  push(call(1, {blob}));
  push(call(2, {}));
  EXPECT_THAT(drain(), testing::ElementsAre("run 2")) << "who needs nothing goes past";
  arrive(told, blob, 0, kBig);
  EXPECT_TRUE(outbox.take(answer(told, FetchEnd::whole)));
  EXPECT_THAT(drain(), testing::ElementsAre("run 1"));
  EXPECT_EQ(arrived_text(), ours.text(blob.descriptor));
  push(call(3, {blob}));
  EXPECT_THAT(drain(), testing::ElementsAre("run 3"));
}

TEST_F(FetchTest, OtherBlobsAreSentMeanwhile) {
  const Blob far = ours.named(ours.make(5, kBig, 'x'), 1);
  const Blob near = ours.make(6, kBlobChunkBytes, 'y');
  ask(far, 1);
  push(call(1, {far}));
  push(call(2, {near}));
  push(call(3, {far, near}));
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 2", "run 2"));
}

TEST_F(FetchTest, TheRestIsSentFromHereWhenNobodyElseHasIt) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  const FetchBlob told = ask(blob, 1);
  push(call(1, {blob}));
  arrive(told, blob, 0, kBlobChunkBytes + 5);
  EXPECT_TRUE(outbox.take(answer(told, FetchEnd::broken)));
  EXPECT_TRUE(drain().empty()) << "whoever decides has not yet";
  EXPECT_EQ(ask(blob, 2, 0).attempt, 0U) << "the other end is idle: it need not be told";
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 1", "chunk 1", "chunk 1", "run 1"));
  EXPECT_EQ(arrived_text(), ours.text(blob.descriptor));
}

TEST_F(FetchTest, ARunningFetchIsStoppedBeforeTheRestIsSent) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  const FetchBlob first = ask(blob, 1);
  push(call(1, {blob}));
  arrive(first, blob, 0, 100);
  const FetchBlob stop = ask(blob, 2, 0);
  EXPECT_EQ(stop.attempt, 2U);
  EXPECT_TRUE(drain().empty());
  EXPECT_FALSE(outbox.take(answer(first, FetchEnd::broken))) << "a word from before";
  arrive(first, blob, 100, 200);
  EXPECT_TRUE(outbox.take(answer(stop, FetchEnd::stopped)));
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 1", "chunk 1", "chunk 1", "run 1"));
  EXPECT_EQ(arrived_text(), ours.text(blob.descriptor));
}

TEST_F(FetchTest, WhatEndedShortBeforeAnyTaskUsedItIsSentFromHere) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  const FetchBlob told = ask(blob, 1);
  EXPECT_TRUE(outbox.take({.blob = told.blob, .attempt = 1}));  // whole, it says
  push(call(1, {blob}));
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 1", "chunk 1", "chunk 1", "chunk 1", "run 1"));
}

TEST_F(FetchTest, AnotherSourceTakesOver) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  const FetchBlob first = ask(blob, 1);
  push(call(1, {blob}));
  const FetchBlob second = ask(blob, 2);
  EXPECT_EQ(second.blob, first.blob);
  arrive(second, blob, 0, kBig);
  EXPECT_FALSE(outbox.take(answer(first, FetchEnd::whole)));
  EXPECT_TRUE(outbox.take(answer(second, FetchEnd::whole)));
  EXPECT_THAT(drain(), testing::ElementsAre("run 1"));
}

TEST_F(FetchTest, WhatIsThereNeedNotBeFetched) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  push(call(1, {blob}));
  drain();
  const auto answered = outbox.push(
      FetchBlob{.blob = BlobId{6}, .content = blob.content, .size = kBig, .attempt = 7, .port = 1});
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->attempt, 7U);
  EXPECT_EQ(answered->end, FetchEnd::whole);
  EXPECT_FALSE(outbox.next_urgent());
}

TEST_F(FetchTest, AFetchThatNobodyNeedsAnyMoreIsForgotten) {
  const Blob blob = ours.named(ours.make(5, kBig, 'x'), 1);
  const FetchBlob told = ask(blob, 1);
  push(call(1, {blob}));
  EXPECT_TRUE(outbox.withdraw(TaskId{1}));
  push(DropBlobs{{blob.id}});
  EXPECT_THAT(drain(), testing::ElementsAre("drop 1"));
  EXPECT_FALSE(inbox.find(told.blob));
  EXPECT_FALSE(outbox.take({.blob = told.blob, .attempt = 1, .received = kBig}));
  EXPECT_TRUE(outbox.empty());
  push(call(2, {blob}));
  EXPECT_THAT(drain(), testing::ElementsAre("chunk 2", "chunk 2", "chunk 2", "chunk 2", "run 2"));
}

TEST_F(FetchTest, ABlobIsFoundByWhatItHoldsUntilItIsDropped) {
  const ContentId content{4};
  ASSERT_TRUE(inbox.expect(BlobId{1}, content, 10));
  EXPECT_FALSE(inbox.expect(BlobId{1}, content, 11)) << "another blob of the same name";
  EXPECT_TRUE(inbox.append(BlobId{1}, as_bytes("hello")));
  EXPECT_EQ(as_text(inbox.find(content)->bytes), "hello");
  EXPECT_EQ(inbox.find(content)->size, 10U);
  EXPECT_FALSE(inbox.append(BlobId{1}, as_bytes("too long"))) << "past its end";
  inbox.drop(std::vector{BlobId{1}});
  EXPECT_FALSE(inbox.find(content));
  EXPECT_FALSE(inbox.append(BlobId{1}, as_bytes("!")));
}

}  // namespace
}  // namespace skyward::wire
