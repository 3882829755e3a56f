#include "skyward/wire/worker_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "skyward/spec/limits.h"
#include "skyward/wire/little_endian.h"

namespace skyward::wire {
namespace {

using testing::HasSubstr;

Buffer text_buffer(std::string text) { return small_buffer(SharedBytes(std::move(text))); }

Blob blob(std::uint64_t id, std::uint64_t size, int descriptor) {
  static const auto storage = std::make_shared<const int>(0);
  return {.id = BlobId{id}, .size = size, .descriptor = descriptor, .storage = storage};
}

FunctionId function_id() {
  FunctionId id;
  for (std::size_t i = 0; i < id.value.size(); ++i) {
    id.value[i] = static_cast<std::uint8_t>(0xa0 + i);
  }
  return id;
}

// The messages of testdata/worker_protocol.txt, by their names there.
std::map<std::string, WorkerMessage> golden_messages() {
  std::map<std::string, WorkerMessage> messages;
  WorkerMessage& run = messages["run"];
  run.kind = WorkerKind::run;
  run.task = TaskId{0x1122334455667788};
  run.function = function_id();
  run.body = SharedBytes(std::string("the function"));
  run.stream_window = 16;
  const Blob shared = blob(71, 100'000, 30);
  run.payload.buffers = {text_buffer("the stream"), blob_buffer(shared, 0, 70'000),
                         text_buffer("small"), blob_buffer(shared, 70'000, 30'000)};

  WorkerMessage& run_again = messages["run_again"];
  run_again.kind = WorkerKind::run;
  run_again.task = TaskId{2};
  run_again.function = function_id();
  run_again.behind = true;
  run_again.payload.buffers = {text_buffer("x")};

  WorkerMessage& group = messages["group"];
  group.kind = WorkerKind::run;
  group.task = TaskId{3};
  group.function = function_id();
  group.ring = true;
  group.group = true;
  group.stream_window = 2;
  group.payload.buffers = {text_buffer("x")};

  messages["outcome"].kind = WorkerKind::outcome;
  messages["outcome"].task = TaskId{9};
  messages["outcome"].value = SharedBytes(std::string("v"));

  messages["credit"].kind = WorkerKind::credit;
  messages["credit"].task = TaskId{6};
  messages["credit"].count = 3;
  messages["stop"].kind = WorkerKind::stop;
  messages["drop"].kind = WorkerKind::drop;
  messages["instance_info"].kind = WorkerKind::instance_info;
  messages["instance_info"].text = R"({"node":1})";
  messages["drop"].function = function_id();
  messages["hello"].kind = WorkerKind::hello;
  messages["hello"].text = "python 3.11.7 \xc3\xa9";

  WorkerMessage& result = messages["result"];
  result.kind = WorkerKind::result;
  result.task = TaskId{12};
  result.run_ns = 1'234'567'890'123;
  result.payload.buffers = {text_buffer(""), blob_buffer(blob(0, 65'536, 40), 0, 65'536),
                            blob_buffer(blob(0, 70'000, 41), 0, 70'000)};
  result.retained = {BlobId{71}, BlobId{72}};

  WorkerMessage& raised = messages["raised"];
  raised.kind = WorkerKind::result;
  raised.status = WorkerStatus::raised;
  raised.task = TaskId{13};
  raised.run_ns = 5;
  raised.payload.buffers = {text_buffer("error")};

  WorkerMessage& cancelled = messages["cancelled"];
  cancelled.kind = WorkerKind::result;
  cancelled.status = WorkerStatus::cancelled;
  cancelled.task = TaskId{14};

  WorkerMessage& item = messages["item"];
  item.kind = WorkerKind::item;
  item.task = TaskId{8};
  item.payload.buffers = {text_buffer("i")};
  return messages;
}

std::map<std::string, Bytes> golden_bytes() {
  std::ifstream file(SKYWARD_WIRE_TESTDATA "/worker_protocol.txt");
  std::map<std::string, Bytes> vectors;
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    Bytes& bytes = vectors[line.substr(0, space)];
    for (std::size_t i = space + 1; i + 2 <= line.size(); i += 2) {
      unsigned value = 0;
      std::from_chars(&line[i], &line[i] + 2, value, 16);
      bytes.push_back(static_cast<std::byte>(value));
    }
  }
  return vectors;
}

Bytes written(const Outgoing& encoded) {
  Bytes bytes = encoded.head;
  for (const SharedBytes& piece : encoded.body) {
    bytes.insert(bytes.end(), piece.view.begin(), piece.view.end());
  }
  return bytes;
}

// Blobs as they arrive: neither id nor size.
std::vector<Blob> arrived(const std::vector<int>& descriptors) {
  std::vector<Blob> blobs;
  for (const int descriptor : descriptors) blobs.push_back(blob(0, 0, descriptor));
  return blobs;
}

Result<WorkerMessage> open(ByteView bytes, std::vector<Blob> blobs) {
  const ByteView rest = bytes.subspan(kWorkerPrefixBytes);
  return decode_worker_message(SharedBytes(Bytes(rest.begin(), rest.end())), std::move(blobs));
}

void expect_same(const WorkerMessage& one, const WorkerMessage& other) {
  EXPECT_EQ(one.kind, other.kind);
  EXPECT_EQ(one.status, other.status);
  EXPECT_EQ(one.task, other.task);
  EXPECT_EQ(one.function, other.function);
  EXPECT_EQ(one.body, other.body);
  EXPECT_EQ(one.behind, other.behind);
  EXPECT_EQ(one.ring, other.ring);
  EXPECT_EQ(one.stream_window, other.stream_window);
  EXPECT_EQ(one.group, other.group);
  EXPECT_EQ(one.value, other.value);
  EXPECT_EQ(one.count, other.count);
  EXPECT_EQ(one.run_ns, other.run_ns);
  EXPECT_EQ(one.payload, other.payload);
  EXPECT_EQ(one.retained, other.retained);
  EXPECT_EQ(one.text, other.text);
}

TEST(WorkerProtocol, WritesAndReadsTheGoldenBytes) {
  const auto messages = golden_messages();
  const auto vectors = golden_bytes();
  ASSERT_EQ(messages.size(), vectors.size());
  for (const auto& [name, message] : messages) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(vectors.contains(name));
    const Bytes& golden = vectors.at(name);
    const Outgoing encoded = encode_worker_message(message);
    EXPECT_EQ(written(encoded), golden);
    EXPECT_EQ(load<std::uint32_t>(golden.data()), golden.size() - kWorkerPrefixBytes);
    const auto count = worker_descriptor_count(ByteView(golden).subspan(kWorkerPrefixBytes));
    ASSERT_TRUE(count);
    EXPECT_EQ(*count, encoded.descriptors.size());
    EXPECT_EQ(encoded.keep.size(), encoded.descriptors.size());
    const auto decoded = open(golden, arrived(encoded.descriptors));
    ASSERT_TRUE(decoded) << decoded.error().message;
    expect_same(*decoded, message);
  }
}

TEST(WorkerProtocol, CarriesABlobOnceAndKeepsItsDescriptor) {
  const Outgoing run = encode_worker_message(golden_messages()["run"]);
  EXPECT_THAT(run.descriptors, testing::ElementsAre(30));
  const Outgoing result = encode_worker_message(golden_messages()["result"]);
  EXPECT_THAT(result.descriptors, testing::ElementsAre(40, 41));
  const auto decoded = open(written(result), arrived({50, 51}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->payload.buffers[1].blob.descriptor, 50);
  EXPECT_EQ(decoded->payload.buffers[2].blob.descriptor, 51);
}

TEST(WorkerProtocol, SmallBuffersShareTheMessage) {
  const Bytes bytes = written(encode_worker_message(golden_messages()["run"]));
  const SharedBytes whole(Bytes(bytes.begin() + kWorkerPrefixBytes, bytes.end()));
  const auto decoded = decode_worker_message(whole, arrived({30}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->body.owner, whole.owner);
  EXPECT_EQ(decoded->payload.buffers[0].bytes.owner, whole.owner);
  EXPECT_EQ(decoded->payload.buffers[2].bytes.view.data() + 5,
            whole.view.data() + whole.view.size());
}

TEST(WorkerProtocol, BelievesTheOwnersSizeOfABlob) {
  const Bytes bytes = written(encode_worker_message(golden_messages()["run"]));
  const auto larger = open(bytes, {blob(0, 131'072, 30)});
  ASSERT_TRUE(larger);
  EXPECT_EQ(larger->payload.buffers[1].blob.size, 131'072U);
  const auto shorter = open(bytes, {blob(0, 99'999, 30)});
  ASSERT_FALSE(shorter);
  EXPECT_THAT(shorter.error().message, HasSubstr("outside its blob"));
}

TEST(WorkerProtocol, EmptyWindowsAreEmptyBuffers) {
  WorkerMessage item;
  item.kind = WorkerKind::item;
  item.payload.buffers = {blob_buffer(blob(0, 70'000, 4), 0, 0)};
  const auto decoded = open(written(encode_worker_message(item)), arrived({4}));
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_EQ(decoded->payload.buffers.size(), 1U);
  EXPECT_EQ(decoded->payload.buffers[0], Buffer{});
}

// --------------------------------------------------------------------------- damage

std::string refusal(const Bytes& bytes, std::vector<Blob> blobs) {
  const auto decoded = open(bytes, std::move(blobs));
  if (decoded) return "accepted";
  EXPECT_EQ(decoded.error().kind, ErrorKind::invalid);
  EXPECT_FALSE(decoded.error().hint.empty());
  return decoded.error().message;
}

// The offsets of fields in a message, counted from its length.
constexpr std::size_t kKindAt = 4;
constexpr std::size_t kStatusAt = 5;
constexpr std::size_t kDescriptorsAt = 6;
constexpr std::size_t kRunBuffersAt = 16 + 16 + 8;
constexpr std::size_t kRunRowsAt = kRunBuffersAt + 4;

TEST(WorkerProtocol, ARunMayAskForARing) {
  for (const bool behind : {false, true}) {
    WorkerMessage run;
    run.behind = behind;
    run.ring = true;
    const Outgoing encoded = encode_worker_message(run);
    const auto decoded = decode_worker_message(
        SharedBytes(Bytes(encoded.head.begin() + kWorkerPrefixBytes, encoded.head.end())), {});
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->behind, behind);
    EXPECT_TRUE(decoded->ring);
  }
}

TEST(WorkerProtocol, AnOutcomeIsFoundWithoutReadingTheRest) {
  const auto vectors = golden_bytes();
  const auto outcome = ring_outcome(vectors.at("outcome"));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->task, TaskId{9});
  EXPECT_EQ(as_text(outcome->value), "v");
  EXPECT_FALSE(ring_outcome(vectors.at("item")));
  EXPECT_FALSE(ring_outcome(ByteView(vectors.at("outcome")).first(15)));
}

TEST(WorkerProtocol, RefusesWhatDoesNotFit) {
  const Bytes run = golden_bytes()["run"];
  const std::vector<Blob> blobs = arrived({30});
  ASSERT_EQ(refusal(run, blobs), "accepted");
  const auto with = [&run](std::size_t at, auto value) {
    Bytes changed = run;
    store(&changed[at], value);
    return changed;
  };
  EXPECT_THAT(refusal(with(kKindAt, std::uint8_t{0}), blobs), HasSubstr("kind is unknown"));
  EXPECT_THAT(refusal(with(kKindAt, std::uint8_t{21}), blobs), HasSubstr("kind is unknown"));
  EXPECT_THAT(refusal(with(kStatusAt, std::uint8_t{8}), blobs), HasSubstr("status is unknown"));
  EXPECT_THAT(refusal(with(kDescriptorsAt, std::uint16_t{2}), blobs), HasSubstr("number of blobs"));
  EXPECT_THAT(refusal(run, {}), HasSubstr("number of blobs"));
  EXPECT_THAT(refusal(with(kRunBuffersAt, std::uint32_t{65'537}), blobs), HasSubstr("too many"));
  EXPECT_THAT(refusal(with(kRunBuffersAt, std::uint32_t{65'536}), blobs), HasSubstr("cut off"));

  const std::size_t second = kRunRowsAt + 32;
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  EXPECT_THAT(refusal(with(kRunRowsAt, std::uint64_t{1000}), blobs), HasSubstr("cut off"));
  EXPECT_THAT(refusal(with(kRunRowsAt, kHuge), blobs), HasSubstr("cut off"));
  EXPECT_THAT(refusal(with(kRunRowsAt + 8, std::uint64_t{1}), blobs), HasSubstr("has an offset"));
  EXPECT_THAT(refusal(with(second, kHuge), blobs), "accepted");  // from 0: a blob of that size
  EXPECT_THAT(refusal(with(second + 8, kHuge), blobs), HasSubstr("outside its blob"));
  EXPECT_THAT(refusal(with(second + 16, std::uint64_t{1}), blobs), HasSubstr("two ids"));
  EXPECT_THAT(refusal(with(second + 24, std::uint32_t{1}), blobs), HasSubstr("is not there"));
  EXPECT_THAT(refusal(with(second + 28, std::uint32_t{1}), blobs), HasSubstr("later version"));

  Bytes result = golden_bytes()["cancelled"];
  store(&result[kStatusAt], std::uint8_t{3});
  EXPECT_THAT(refusal(result, {}), HasSubstr("status is unknown"));
  Bytes longer = run;
  longer.emplace_back();
  EXPECT_THAT(refusal(longer, blobs), HasSubstr("longer than its parts"));
  Bytes stop = golden_bytes()["stop"];
  store(&stop[kDescriptorsAt], std::uint16_t{1});
  EXPECT_THAT(refusal(stop, blobs), HasSubstr("no use for"));
  EXPECT_THAT(refusal(run, std::vector<Blob>(65)), HasSubstr("too many blobs"));
}

TEST(WorkerProtocol, RefusesMoreInlineBytesThanAFrameHolds) {
  WorkerMessage result;
  result.kind = WorkerKind::result;
  result.payload.buffers = {small_buffer(SharedBytes{Bytes(kMaxFrameBodyBytes)})};
  EXPECT_EQ(refusal(written(encode_worker_message(result)), {}), "accepted");
  result.payload.buffers.push_back(text_buffer("x"));
  EXPECT_THAT(refusal(written(encode_worker_message(result)), {}), HasSubstr("outside of blobs"));
}

TEST(WorkerProtocol, BoundsDescriptors) {
  Bytes bytes(4);
  store(&bytes[2], static_cast<std::uint16_t>(kMaxFrameDescriptors));
  EXPECT_EQ(worker_descriptor_count(bytes).value(), kMaxFrameDescriptors);
  store(&bytes[2], static_cast<std::uint16_t>(kMaxFrameDescriptors + 1));
  EXPECT_FALSE(worker_descriptor_count(bytes));
  for (std::size_t size = 0; size < 4; ++size) {
    EXPECT_FALSE(worker_descriptor_count(ByteView(bytes).first(size)));
  }
}

TEST(WorkerProtocol, RefusesEveryTruncation) {
  for (const auto& [name, message] : golden_messages()) {
    // Text and values may end anywhere.
    if (message.kind == WorkerKind::hello || message.kind == WorkerKind::instance_info ||
        message.kind == WorkerKind::outcome)
      continue;
    const Outgoing encoded = encode_worker_message(message);
    const Bytes bytes = written(encoded);
    for (std::size_t size = kWorkerPrefixBytes; size < bytes.size(); ++size) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(open(cut, arrived(encoded.descriptors))) << name << " at " << size;
    }
  }
}

TEST(WorkerProtocol, SurvivesFlippedBytesAtEveryOffset) {
  std::size_t accepted = 0;
  std::size_t refused = 0;
  for (const auto& [name, message] : golden_messages()) {
    const Outgoing encoded = encode_worker_message(message);
    const Bytes bytes = written(encoded);
    for (std::size_t offset = kWorkerPrefixBytes; offset < bytes.size(); ++offset) {
      for (const unsigned flip : {0x01U, 0x02U, 0x04U, 0x08U, 0x10U, 0x20U, 0x40U, 0x80U, 0xffU}) {
        Bytes damaged = bytes;
        damaged[offset] ^= static_cast<std::byte>(flip);
        const auto decoded = open(damaged, arrived(encoded.descriptors));
        ++(decoded ? accepted : refused);
        if (decoded) {
          const Outgoing again = encode_worker_message(*decoded);
          EXPECT_TRUE(open(written(again), arrived(again.descriptors)));
        }
      }
    }
  }
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(accepted, 1000U);
}

}  // namespace
}  // namespace skyward::wire
