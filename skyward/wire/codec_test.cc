#include "skyward/wire/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "skyward/spec/limits.h"
#include "skyward/wire/little_endian.h"
#include "skyward/wire/message_generated.h"
#include "skyward/wire/test_messages.h"

namespace skyward::wire {
namespace {

using testing::HasSubstr;

// A frame as it arrives: cut by its prefix, the buffers in one piece, blobs without ids and sizes.
struct Arrived {
  Bytes head;
  Bytes body;
  std::vector<Blob> blobs;
};

Arrived carry(const Outgoing& frame) {
  Arrived arrived{.head = frame.head, .body = {}, .blobs = {}};
  for (const SharedBytes& piece : frame.body) {
    arrived.body.insert(arrived.body.end(), piece.view.begin(), piece.view.end());
  }
  for (const int descriptor : frame.descriptors) {
    arrived.blobs.push_back({.id = {}, .size = 0, .descriptor = descriptor, .storage = {}});
  }
  return arrived;
}

Result<DecodedFrame> open(const Arrived& arrived) {
  const ByteView head(arrived.head);
  const auto prefix = decode_prefix(head.first(std::min(head.size(), kFramePrefixBytes)));
  if (!prefix) return fail(prefix);
  if (prefix->head_bytes != head.size() - kFramePrefixBytes ||
      prefix->body_bytes != arrived.body.size() || prefix->descriptors != arrived.blobs.size()) {
    return fail(ErrorKind::invalid, "not what the prefix announced");
  }
  return decode(head.subspan(kFramePrefixBytes), SharedBytes(arrived.body), arrived.blobs);
}

TEST(Codec, CarriesEveryKindOfMessage) {
  std::vector<bool> seen(std::variant_size_v<Message>);
  std::uint64_t number = 0;
  for (const Message& message : every_kind()) {
    seen[message.index()] = true;
    const Envelope envelope{.sequence = ++number, .acknowledged = number * 1000};
    const Outgoing frame = encode(message, envelope);
    const Arrived arrived = carry(frame);
    EXPECT_EQ(frame.size(), arrived.head.size() + arrived.body.size());
    const auto decoded = open(arrived);
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().message;
    EXPECT_EQ(decoded->envelope, envelope);
    EXPECT_TRUE(decoded->message == message) << "kind " << message.index();
  }
  EXPECT_THAT(seen, testing::Each(true)) << "a kind is missing from test_messages.h";
}

TEST(Codec, KeepsDefaultsAndAbsentValuesApart) {
  RunTask first;
  first.worker = std::nullopt;
  RunTask second;
  second.worker = 0;
  const auto decoded_first = open(carry(encode(first, {})));
  const auto decoded_second = open(carry(encode(second, {})));
  ASSERT_TRUE(decoded_first && decoded_second);
  EXPECT_EQ(std::get<RunTask>(decoded_first->message).worker, std::nullopt);
  EXPECT_EQ(std::get<RunTask>(decoded_second->message).worker, 0U);

  MetricsSample idle;
  idle.gpu_utilization = 0.0;
  const auto decoded = open(carry(encode(idle, {})));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<MetricsSample>(decoded->message), idle);
}

TEST(Codec, DoesNotCopySmallBuffers) {
  const SharedBytes bytes(std::string(1000, 'x'));
  RunTask run;
  run.arguments.buffers.push_back(small_buffer(bytes));
  const Outgoing frame = encode(run, {});
  ASSERT_EQ(frame.body.size(), 1U);
  EXPECT_EQ(frame.body[0].view.data(), bytes.view.data());

  const SharedBytes body(std::string(1000, 'x'));
  const auto decoded = decode(ByteView(frame.head).subspan(kFramePrefixBytes), body, {});
  ASSERT_TRUE(decoded);
  const Buffer& buffer = std::get<RunTask>(decoded->message).arguments.buffers[0];
  EXPECT_EQ(buffer.bytes.view.data(), body.view.data());
  EXPECT_EQ(buffer.bytes.owner, body.owner);
}

TEST(Codec, CarriesABlobOnceHoweverManyBuffersShareIt) {
  const auto storage = std::make_shared<int>(7);
  const Blob shared{.id = BlobId{9}, .size = 300'000, .descriptor = 40, .storage = storage};
  const Blob other{.id = BlobId{10}, .size = 200'000, .descriptor = 41, .storage = storage};
  RunTask run;
  run.arguments.buffers = {blob_buffer(shared, 0, 100'000),
                           small_buffer(SharedBytes(to_bytes("s"))), blob_buffer(other, 0, 200'000),
                           blob_buffer(shared, 100'000, 200'000)};
  const Outgoing frame = encode(run, {});
  EXPECT_THAT(frame.descriptors, testing::ElementsAre(40, 41));
  EXPECT_EQ(frame.keep.size(), 2U);
  const auto decoded = open(carry(frame));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const Payload& payload = std::get<RunTask>(decoded->message).arguments;
  EXPECT_EQ(payload, run.arguments);
  EXPECT_EQ(payload.buffers[0].blob.descriptor, 40);
  EXPECT_EQ(payload.buffers[2].blob.descriptor, 41);
  EXPECT_EQ(payload.buffers[3].blob.descriptor, 40);
}

// Blobs of results have no ids; two of them with equal sizes are still two.
TEST(Codec, TellsBlobsWithoutIdsApart) {
  TaskResult result;
  const auto storage = std::make_shared<int>(7);
  for (const int descriptor : {50, 51, 50}) {
    const Blob blob{.id = {}, .size = 70'000, .descriptor = descriptor, .storage = storage};
    result.payload.buffers.push_back(blob_buffer(blob, 0, 70'000));
  }
  const Outgoing frame = encode(result, {});
  EXPECT_THAT(frame.descriptors, testing::ElementsAre(50, 51));
  const auto decoded = open(carry(frame));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const Payload& payload = std::get<TaskResult>(decoded->message).payload;
  EXPECT_EQ(payload.buffers[1].blob.descriptor, 51);
  EXPECT_EQ(payload.buffers[2].blob.descriptor, 50);
}

TEST(Codec, KeepsBlobsAliveInTheFrameAndInTheMessage) {
  auto storage = std::make_shared<int>(7);
  const std::weak_ptr<int> alive = storage;
  Outgoing frame;
  {
    StreamItem item;
    item.payload.buffers.push_back(blob_buffer(
        {.id = {}, .size = 70'000, .descriptor = 3, .storage = std::move(storage)}, 0, 70'000));
    frame = encode(item, {});
  }
  EXPECT_FALSE(alive.expired());
  frame = {};
  EXPECT_TRUE(alive.expired());
}

TEST(Codec, ReadsAHeaderAtAnyAddress) {
  const Message message = every_kind().front();
  const Outgoing frame = encode(message, {});
  const ByteView header = ByteView(frame.head).subspan(kFramePrefixBytes);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes moved(shift);
    moved.insert(moved.end(), header.begin(), header.end());
    const auto decoded = decode(ByteView(moved).subspan(shift), {}, {});
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(decoded->message == message);
  }
}

TEST(Codec, ABigMessageDoesNotSpoilTheNext) {
  Output output;
  for (int i = 0; i < 100; ++i) {
    output.lines.push_back({.task = TaskId{1},
                            .worker = 0,
                            .stream = OutputStream::err,
                            .wall_us = i,
                            .text = std::string(kMaxLineBytes, 'x')});
  }
  for (const Message& message : {Message(output), Message(Heartbeat{}), Message(output)}) {
    const auto decoded = open(carry(encode(message, {})));
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(decoded->message == message);
  }
}

// ------------------------------------------------------------------------------- limits

TEST(Codec, RefusesUsersDataThatFitsNoFrame) {
  RunTask run;
  run.body = small_buffer(SharedBytes(std::string(1000, 'f')));
  EXPECT_TRUE(check_limits(run));

  const SharedBytes large{Bytes(kMaxFrameBodyBytes)};
  run.arguments.buffers = {small_buffer(large)};
  EXPECT_THAT(check_limits(run).error().message, HasSubstr("the call has 67109864 bytes"));
  TaskResult result;
  result.payload.buffers = {small_buffer(large)};
  EXPECT_TRUE(check_limits(result));
  EXPECT_TRUE(open(carry(encode(result, {}))));
  result.payload.buffers.push_back(small_buffer(SharedBytes(to_bytes("x"))));
  EXPECT_EQ(check_limits(result).error().kind, ErrorKind::invalid);

  StreamItem item;
  item.payload.buffers.resize(kMaxBuffers);
  EXPECT_TRUE(check_limits(item));
  EXPECT_TRUE(open(carry(encode(item, {}))));
  item.payload.buffers.emplace_back();
  EXPECT_THAT(check_limits(item).error().message, HasSubstr("65537 buffers"));

  item.payload.buffers.clear();
  for (std::uint64_t i = 0; i < 2 * kMaxFrameDescriptors; ++i) {
    const Blob blob{
        .id = BlobId{1 + i % kMaxFrameDescriptors}, .size = 1, .descriptor = 0, .storage = {}};
    item.payload.buffers.push_back(blob_buffer(blob, 0, 1));
  }
  EXPECT_TRUE(check_limits(item));
  EXPECT_EQ(encode(item, {}).descriptors.size(), kMaxFrameDescriptors);
  item.payload.buffers.push_back(
      blob_buffer({.id = BlobId{1000}, .size = 1, .descriptor = 0, .storage = {}}, 0, 1));
  EXPECT_THAT(check_limits(item).error().message, HasSubstr("more than 64 blobs"));
  EXPECT_DEATH(encode(item, {}), "more than 64 blobs");
  // The check tells blobs apart as the writer does: also those of one id whose sizes differ.
  for (Buffer& buffer : item.payload.buffers) buffer.blob.id = BlobId{1};
  EXPECT_TRUE(check_limits(item));
  item.payload.buffers.resize(kMaxFrameDescriptors + 1);
  for (std::uint64_t size = 1; Buffer & buffer : item.payload.buffers) buffer.blob.size = size++;
  EXPECT_THAT(check_limits(item).error().message, HasSubstr("more than 64 blobs"));
}

Bytes prefix(std::uint32_t magic, std::uint32_t header, std::uint64_t body,
             std::uint32_t descriptors, std::uint32_t reserved) {
  Bytes bytes(kFramePrefixBytes);
  ByteWriter writer(bytes.data());
  writer.put(magic);
  writer.put(header);
  writer.put(body);
  writer.put(descriptors);
  writer.put(reserved);
  return bytes;
}

TEST(Codec, BoundsWhatAPrefixAnnounces) {
  constexpr std::uint32_t kMagic = 0x31594b53;
  constexpr auto kHeader = static_cast<std::uint32_t>(kMaxFrameHeaderBytes);
  constexpr auto kDescriptors = static_cast<std::uint32_t>(kMaxFrameDescriptors);
  const auto largest = decode_prefix(prefix(kMagic, kHeader, kMaxFrameBodyBytes, kDescriptors, 0));
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->head_bytes, kHeader);
  EXPECT_EQ(largest->body_bytes, kMaxFrameBodyBytes);
  EXPECT_EQ(largest->descriptors, kDescriptors);

  const std::vector<std::pair<Bytes, std::string>> refused = {
      {prefix(kMagic + 1, 8, 0, 0, 0), "does not start with SKY1"},
      {to_bytes("HTTP/1.1 400 Bad Request"), "does not start with SKY1"},
      {prefix(kMagic, 0, 0, 0, 0), "a header of 0 bytes"},
      {prefix(kMagic, kHeader + 1, 0, 0, 0), "a header of 16777217 bytes"},
      {prefix(kMagic, 8, kMaxFrameBodyBytes + 1, 0, 0), "a body of 67108865 bytes"},
      {prefix(kMagic, 8, ~std::uint64_t{0}, 0, 0), "a body of"},
      {prefix(kMagic, 8, 0, kDescriptors + 1, 0), "65 descriptors"},
      {prefix(kMagic, 8, 0, 0, 1), "later version"},
  };
  for (const auto& [bytes, why] : refused) {
    const auto decoded = decode_prefix(bytes);
    ASSERT_FALSE(decoded) << why;
    EXPECT_EQ(decoded.error().kind, ErrorKind::invalid);
    EXPECT_THAT(decoded.error().message, HasSubstr(why));
    EXPECT_FALSE(decoded.error().hint.empty());
  }
  const Bytes whole = prefix(kMagic, 8, 0, 0, 0);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode_prefix(ByteView(whole).first(size))) << size;
  }
}

// ------------------------------------------------------------------------------- damage

std::string refusal(const Arrived& arrived) {
  const auto decoded = decode(ByteView(arrived.head).subspan(kFramePrefixBytes),
                              SharedBytes(arrived.body), arrived.blobs);
  if (decoded) return "accepted";
  EXPECT_EQ(decoded.error().kind, ErrorKind::invalid);
  return decoded.error().message;
}

TEST(Codec, RefusesPartsThatDoNotFitEachOther) {
  const Arrived whole = carry(encode(rich_run_task(), {}));
  ASSERT_TRUE(open(whole));

  Arrived shorter = whole;
  shorter.body.pop_back();
  EXPECT_THAT(refusal(shorter), HasSubstr("its buffers are larger than its body"));
  Arrived longer = whole;
  longer.body.emplace_back();
  EXPECT_THAT(refusal(longer), HasSubstr("its body is larger than its buffers"));
  Arrived robbed = whole;
  robbed.blobs.pop_back();
  EXPECT_THAT(refusal(robbed), HasSubstr("another number of blobs"));
  Arrived gifted = whole;
  gifted.blobs.emplace_back();
  EXPECT_THAT(refusal(gifted), HasSubstr("another number of blobs"));
  Arrived empty = whole;
  empty.head.resize(kFramePrefixBytes);
  EXPECT_THAT(refusal(empty), HasSubstr("header is damaged"));

  RunTask outside = rich_run_task();
  for (Buffer& buffer : outside.arguments.buffers) {
    if (buffer.in_blob()) buffer.offset = ~std::uint64_t{0} - 1;
  }
  EXPECT_THAT(refusal(carry(encode(outside, {}))), HasSubstr("outside its blob"));

  TaskResult result;
  result.status = static_cast<TaskStatus>(7);
  EXPECT_THAT(refusal(carry(encode(result, {}))), HasSubstr("unknown status"));
  Output output;
  output.lines.resize(1);
  output.lines[0].stream = static_cast<OutputStream>(3);
  EXPECT_THAT(refusal(carry(encode(output, {}))), HasSubstr("unknown stream"));
}

// A table that the verifier accepts and that would unfold into 100 000 copies of one string.
TEST(Codec, RefusesAHeaderThatUnfoldsIntoMore) {
  flatbuffers::FlatBufferBuilder builder;
  const auto one = builder.CreateString(std::string(10'000, 'x'));
  const std::vector<flatbuffers::Offset<flatbuffers::String>> many(100'000, one);
  const auto names = builder.CreateVector(many);
  const auto ready = schema::CreateReady(builder, names, 0);
  builder.Finish(schema::CreateFrame(builder, 1, 0, 0, schema::Body::Ready, ready.Union()));
  flatbuffers::Verifier verifier(builder.GetBufferPointer(), builder.GetSize());
  ASSERT_TRUE(schema::VerifyFrameBuffer(verifier));
  const auto decoded =
      decode(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())), {}, {});
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("overlap"));
}

// Found by the fuzzer: the verifier accepts a list of 8-byte entries at a multiple of 4.
TEST(Codec, RefusesEntriesOutOfPlace) {
  int out_of_place = 0;
  for (const std::size_t words : {4U, 5U}) {  // one of them puts the list at an odd word
    flatbuffers::FlatBufferBuilder builder;
    const auto list = builder.CreateVector(std::vector<std::uint32_t>(words, 1));
    const auto drop = schema::CreateDropBlobs(builder, list.o);
    builder.Finish(schema::CreateFrame(builder, 1, 0, 0, schema::Body::DropBlobs, drop.Union()));
    auto* data = reinterpret_cast<std::byte*>(builder.GetBufferPointer());
    const auto* blobs = schema::GetFrame(data)->body_as_DropBlobs()->blobs();
    const std::ptrdiff_t entries = reinterpret_cast<const std::byte*>(blobs->Data()) - data;
    store(data + entries - 4, std::uint32_t{1});  // one entry of 8 bytes
    const auto decoded = decode(ByteView(data, builder.GetSize()), {}, {});
    ASSERT_EQ(decoded.has_value(), entries % 8 == 0);
    if (decoded) continue;
    EXPECT_THAT(decoded.error().message, HasSubstr("out of place"));
    ++out_of_place;
  }
  EXPECT_EQ(out_of_place, 1);
}

TEST(Codec, RefusesOneBlobTwice) {
  const Blob blob{.id = BlobId{5}, .size = 70'000, .descriptor = 1, .storage = {}};
  Blob longer = blob;
  longer.size = 80'000;  // the encoder takes them for two
  StreamItem item;
  item.payload.buffers = {blob_buffer(blob, 0, 70'000), blob_buffer(longer, 0, 80'000)};
  EXPECT_THAT(refusal(carry(encode(item, {}))), HasSubstr("one blob twice"));
}

TEST(Codec, RefusesEveryTruncation) {
  for (const Message& message : every_kind()) {
    const Arrived whole = carry(encode(message, {.sequence = 1, .acknowledged = 2}));
    for (std::size_t size = kFramePrefixBytes; size < whole.head.size(); ++size) {
      Arrived cut = whole;
      cut.head.resize(size);
      const auto decoded =
          decode(ByteView(cut.head).subspan(kFramePrefixBytes), SharedBytes(cut.body), cut.blobs);
      // The last bytes may be padding; whatever is accepted must be the message itself.
      EXPECT_TRUE(!decoded || decoded->message == message) << message.index() << " at " << size;
    }
  }
}

TEST(Codec, SurvivesFlippedBytesAtEveryOffset) {
  std::size_t refused = 0;
  std::size_t accepted = 0;
  for (const Message& message : every_kind()) {
    const Arrived whole = carry(encode(message, {.sequence = 1, .acknowledged = 2}));
    for (std::size_t offset = 0; offset < whole.head.size(); ++offset) {
      for (const unsigned flip : {0x01U, 0x02U, 0x04U, 0x08U, 0x10U, 0x20U, 0x40U, 0x80U, 0xffU}) {
        Arrived damaged = whole;
        damaged.head[offset] ^= static_cast<std::byte>(flip);
        ++(open(damaged) ? accepted : refused);
      }
    }
  }
  // Most bytes are numbers and text, where any value is a message; the rest must be noticed.
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(accepted, 1000U);
}

TEST(Codec, SurvivesManyFlipsAtOnce) {
  std::mt19937_64 random(20'26);
  const std::vector<Message> messages = every_kind();
  for (int round = 0; round < 20'000; ++round) {
    Arrived damaged = carry(encode(messages[random() % messages.size()], {}));
    for (std::size_t flips = 1 + random() % 8; flips > 0; --flips) {
      const std::size_t offset =
          kFramePrefixBytes + random() % (damaged.head.size() - kFramePrefixBytes);
      damaged.head[offset] = static_cast<std::byte>(random());
    }
    const auto decoded = open(damaged);
    // What was accepted is a message like any other: it can be passed on.
    if (decoded && check_limits(decoded->message)) {
      EXPECT_TRUE(open(carry(encode(decoded->message, decoded->envelope))));
    }
  }
}

}  // namespace
}  // namespace skyward::wire
