#include "skyward/wire/worker_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/distinct_blobs.h"
#include "skyward/wire/little_endian.h"

namespace skyward::wire {
namespace {

constexpr std::size_t kFieldsBytes = 12;  // kind, status, descriptors, task
constexpr std::size_t kBufferBytes = 32;  // one row of the table of buffers
constexpr std::size_t kRunBytes = 16 + 3 * 4;
constexpr std::size_t kResultBytes = 8 + 2 * 4;

// --------------------------------------------------------------------------- encoding

// The table of buffers, and what goes beside it.
class Buffers {
 public:
  Buffers(const Payload& payload, Outgoing& message) : payload_(payload) {
    SKYWARD_CHECK(payload.buffers.size() <= kMaxBuffers, "{} buffers", payload.buffers.size());
    for (const Buffer& buffer : payload.buffers) {
      if (buffer.in_blob()) {
        add_blob(buffer.blob, message);
      } else if (!buffer.bytes.empty()) {
        message.body.push_back(buffer.bytes);
      }
    }
  }

  std::size_t table_bytes() const { return payload_.buffers.size() * kBufferBytes; }

  void write(ByteWriter& to) const {
    for (const Buffer& buffer : payload_.buffers) {
      to.put(buffer.size);
      to.put(buffer.offset);
      to.put(buffer.in_blob() ? buffer.blob.id.value : 0);
      to.put(buffer.in_blob() ? static_cast<std::uint32_t>(blobs_.find(buffer.blob))
                              : std::numeric_limits<std::uint32_t>::max());
      to.put(std::uint32_t{0});
    }
  }

 private:
  void add_blob(const Blob& blob, Outgoing& message) {
    if (blobs_.find(blob) < blobs_.count()) return;
    blobs_.add(blob);
    message.descriptors.push_back(blob.descriptor);
    message.keep.push_back(blob.storage);
  }

  const Payload& payload_;
  DistinctBlobs blobs_;
};

constexpr std::uint8_t kBehindBit = 1;
constexpr std::uint8_t kRingBit = 2;
constexpr std::uint8_t kGroupBit = 4;

// The second byte: of a run, how it is to be run.
std::uint8_t status_byte(const WorkerMessage& message) {
  if (message.kind == WorkerKind::run)
    return static_cast<std::uint8_t>((message.behind ? kBehindBit : 0) |
                                     (message.ring ? kRingBit : 0) |
                                     (message.group ? kGroupBit : 0));
  return static_cast<std::uint8_t>(message.status);
}

// Makes the head of prefix, fields and `bytes` more, which `write` fills.
template <typename Write>
void write_head(const WorkerMessage& message, Outgoing& encoded, std::size_t bytes, Write write) {
  std::size_t length = kFieldsBytes + bytes;
  for (const SharedBytes& piece : encoded.body) length += piece.size();
  SKYWARD_CHECK(length <= std::numeric_limits<std::uint32_t>::max(), "{} bytes", length);
  encoded.head.resize(kWorkerPrefixBytes + kFieldsBytes + bytes);
  ByteWriter to(encoded.head.data());
  to.put(static_cast<std::uint32_t>(length));
  to.put(static_cast<std::uint8_t>(message.kind));
  to.put(status_byte(message));
  to.put(static_cast<std::uint16_t>(encoded.descriptors.size()));
  to.put(message.task.value);
  write(to);
  SKYWARD_CHECK(to.position() == encoded.head.data() + encoded.head.size());
}

void encode_run(const WorkerMessage& message, Outgoing& encoded) {
  if (!message.body.empty()) encoded.body.push_back(message.body);
  const Buffers buffers(message.payload, encoded);
  write_head(message, encoded, kRunBytes + buffers.table_bytes(), [&](ByteWriter& to) {
    to.put_bytes(message.function.value.data(), message.function.value.size());
    to.put(static_cast<std::uint32_t>(message.body.size()));
    to.put(message.stream_window);
    to.put(static_cast<std::uint32_t>(message.payload.buffers.size()));
    buffers.write(to);
  });
}

void encode_result(const WorkerMessage& message, Outgoing& encoded) {
  const Buffers buffers(message.payload, encoded);
  const std::size_t bytes = kResultBytes + buffers.table_bytes() + 8 * message.retained.size();
  write_head(message, encoded, bytes, [&](ByteWriter& to) {
    to.put(message.run_ns);
    to.put(static_cast<std::uint32_t>(message.payload.buffers.size()));
    to.put(static_cast<std::uint32_t>(message.retained.size()));
    buffers.write(to);
    for (const BlobId blob : message.retained) to.put(blob.value);
  });
}

// --------------------------------------------------------------------------- decoding

struct BufferRow {
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  BlobId blob;
  std::uint32_t index = 0;

  bool is_inline() const { return index == std::numeric_limits<std::uint32_t>::max(); }
};

// Reads a message and remembers what went wrong first; the caller looks once, at the end.
class Decoder {
 public:
  Decoder(SharedBytes message, std::vector<Blob> blobs)
      : message_(std::move(message)), blobs_(std::move(blobs)), reader_(message_.view) {}

  WorkerMessage decode();
  std::string_view problem() const {
    return problem_.empty() && reader_.failed() ? "it is cut off" : problem_;
  }

 private:
  void fail(std::string_view why) {
    if (problem_.empty()) problem_ = why;
  }
  bool read_function(WorkerMessage& message);
  void read_run(WorkerMessage& message);
  void read_result(WorkerMessage& message);
  std::vector<BufferRow> read_table(std::uint32_t count);
  void read_payload(const std::vector<BufferRow>& rows, Payload& payload);
  void size_blobs(const std::vector<BufferRow>& rows);
  SharedBytes take(std::uint64_t size);

  SharedBytes message_;
  std::vector<Blob> blobs_;
  ByteReader reader_;
  std::uint64_t inline_bytes_ = 0;
  std::string_view problem_;
};

WorkerMessage Decoder::decode() {
  WorkerMessage message;
  const auto kind = reader_.take<std::uint8_t>();
  const auto status = reader_.take<std::uint8_t>();
  const auto descriptors = reader_.take<std::uint16_t>();
  message.task = TaskId{reader_.take<std::uint64_t>()};
  if (descriptors != blobs_.size()) fail("it announces another number of blobs than it brings");
  message.kind = static_cast<WorkerKind>(kind);
  const bool is_run = message.kind == WorkerKind::run;
  const std::uint8_t last = is_run ? kBehindBit | kRingBit | kGroupBit
                                   : static_cast<std::uint8_t>(WorkerStatus::cancelled);
  if (status > last) fail("its status is unknown");
  if (!problem().empty()) return message;
  if (is_run) {
    message.behind = (status & kBehindBit) != 0;
    message.ring = (status & kRingBit) != 0;
    message.group = (status & kGroupBit) != 0;
  } else {
    message.status = static_cast<WorkerStatus>(status);
  }
  switch (message.kind) {
    case WorkerKind::run:
      read_run(message);
      break;
    case WorkerKind::credit:
      message.count = reader_.take<std::uint32_t>();
      break;
    case WorkerKind::stop:
    case WorkerKind::elsewhere:
      break;
    case WorkerKind::drop:
      read_function(message);
      break;
    case WorkerKind::instance_info:
    case WorkerKind::hello:
      message.text = as_text(reader_.take_bytes(reader_.left()));
      break;
    case WorkerKind::result:
    case WorkerKind::item:
      read_result(message);
      break;
    case WorkerKind::outcome:
      message.value = take(reader_.left());
      break;
    default:
      fail("its kind is unknown");  // any byte can arrive here
  }
  if (problem().empty() && reader_.left() != 0) fail("it is longer than its parts");
  const bool has_payload = message.kind == WorkerKind::run || message.kind == WorkerKind::result ||
                           message.kind == WorkerKind::item;
  if (!has_payload && !blobs_.empty()) fail("it brings blobs that its kind has no use for");
  return message;
}

bool Decoder::read_function(WorkerMessage& message) {
  const ByteView function = reader_.take_bytes(message.function.value.size());
  if (function.empty()) return false;
  std::memcpy(message.function.value.data(), function.data(), function.size());
  return true;
}

void Decoder::read_run(WorkerMessage& message) {
  if (!read_function(message)) return;
  const auto body_bytes = reader_.take<std::uint32_t>();
  message.stream_window = reader_.take<std::uint32_t>();
  const std::vector<BufferRow> rows = read_table(reader_.take<std::uint32_t>());
  message.body = take(body_bytes);
  read_payload(rows, message.payload);
}

void Decoder::read_result(WorkerMessage& message) {
  message.run_ns = reader_.take<std::uint64_t>();
  const auto buffers = reader_.take<std::uint32_t>();
  const auto retained = reader_.take<std::uint32_t>();
  if (retained > kMaxBuffers) fail("it retains too many blobs");
  const std::vector<BufferRow> rows = read_table(buffers);
  for (std::uint32_t i = 0; i < retained && problem().empty(); ++i) {
    message.retained.push_back(BlobId{reader_.take<std::uint64_t>()});
  }
  read_payload(rows, message.payload);
}

std::vector<BufferRow> Decoder::read_table(std::uint32_t count) {
  std::vector<BufferRow> rows;
  if (count > kMaxBuffers) fail("it has too many buffers");
  if (std::uint64_t{count} * kBufferBytes > reader_.left()) fail("it is cut off");
  if (!problem().empty()) return rows;
  rows.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    BufferRow row;
    row.size = reader_.take<std::uint64_t>();
    row.offset = reader_.take<std::uint64_t>();
    row.blob = BlobId{reader_.take<std::uint64_t>()};
    row.index = reader_.take<std::uint32_t>();
    if (reader_.take<std::uint32_t>() != 0) fail("it is of a later version");
    rows.push_back(row);
  }
  return rows;
}

// The layout has no sizes of blobs: the owner says them, or the end of the last window is one.
void Decoder::size_blobs(const std::vector<BufferRow>& rows) {
  std::vector<std::uint64_t> ends(blobs_.size());
  std::vector<bool> named(blobs_.size());
  for (const BufferRow& row : rows) {
    if (row.is_inline()) continue;
    if (row.index >= blobs_.size()) return fail("a buffer names a blob that is not there");
    if (row.size > std::numeric_limits<std::uint64_t>::max() - row.offset) {
      return fail("a buffer is outside its blob");
    }
    Blob& blob = blobs_[row.index];
    if (named[row.index] && blob.id != row.blob) return fail("a blob has two ids");
    named[row.index] = true;
    blob.id = row.blob;
    ends[row.index] = std::max(ends[row.index], row.offset + row.size);
  }
  for (std::size_t i = 0; i < blobs_.size(); ++i) {
    if (!named[i]) return fail("it brings a blob that no buffer names");
    const auto twin = [&](const Blob& other) { return other.id == blobs_[i].id; };
    const auto here = blobs_.begin() + static_cast<std::ptrdiff_t>(i);
    if (blobs_[i].id.value != 0 && std::any_of(blobs_.begin(), here, twin)) {
      return fail("it brings one blob twice");
    }
    if (blobs_[i].size == 0) blobs_[i].size = ends[i];
    if (ends[i] > blobs_[i].size) return fail("a buffer is outside its blob");
  }
}

void Decoder::read_payload(const std::vector<BufferRow>& rows, Payload& payload) {
  if (problem().empty()) size_blobs(rows);
  if (!problem().empty()) return;
  payload.buffers.reserve(rows.size());
  for (const BufferRow& row : rows) {
    if (!row.is_inline() && blobs_[row.index].size == 0) {
      payload.buffers.push_back(small_buffer({}));  // all windows into it are empty
      continue;
    }
    if (!row.is_inline()) {
      payload.buffers.push_back(blob_buffer(blobs_[row.index], row.offset, row.size));
      continue;
    }
    if (row.offset != 0 || row.blob.value != 0) fail("an inline buffer has an offset or a blob");
    payload.buffers.push_back(small_buffer(take(row.size)));
    if (!problem().empty()) return;
  }
}

// The next bytes, shared with the message. Together no more than fits a frame to the engine.
SharedBytes Decoder::take(std::uint64_t size) {
  const ByteView view = reader_.take_bytes(size);
  if (view.empty()) return {};
  inline_bytes_ += view.size();
  if (inline_bytes_ > kMaxFrameBodyBytes) {
    fail("it has too many bytes outside of blobs; large data must be in buffers of its own");
  }
  return {message_.owner, view};
}

std::unexpected<Error> malformed(std::string_view why) {
  return fail(ErrorKind::invalid,
              fmt::format("a message between agent and worker cannot be read: {}", why),
              "nothing but the worker itself may write to its descriptor 3; if nothing else does, "
              "report a bug");
}

}  // namespace

Outgoing encode_worker_message(const WorkerMessage& message) {
  Outgoing encoded;
  switch (message.kind) {
    case WorkerKind::run:
      encode_run(message, encoded);
      break;
    case WorkerKind::credit:
      write_head(message, encoded, 4, [&](ByteWriter& to) { to.put(message.count); });
      break;
    case WorkerKind::stop:
    case WorkerKind::elsewhere:
      write_head(message, encoded, 0, [](ByteWriter&) {});
      break;
    case WorkerKind::drop:
      write_head(message, encoded, message.function.value.size(), [&](ByteWriter& to) {
        to.put_bytes(message.function.value.data(), message.function.value.size());
      });
      break;
    case WorkerKind::instance_info:
    case WorkerKind::hello:
      write_head(message, encoded, message.text.size(),
                 [&](ByteWriter& to) { to.put_bytes(message.text.data(), message.text.size()); });
      break;
    case WorkerKind::result:
    case WorkerKind::item:
      encode_result(message, encoded);
      break;
    case WorkerKind::outcome:
      if (!message.value.empty()) encoded.body.push_back(message.value);
      write_head(message, encoded, 0, [](ByteWriter&) {});
      break;
  }
  return encoded;
}

std::optional<RingOutcome> ring_outcome(ByteView message) {
  constexpr std::size_t kHeadBytes = kWorkerPrefixBytes + kFieldsBytes;
  if (message.size() < kHeadBytes) return std::nullopt;
  ByteReader reader(message.subspan(kWorkerPrefixBytes));
  const auto kind = static_cast<WorkerKind>(reader.take<std::uint8_t>());
  const auto status = reader.take<std::uint8_t>();
  const auto descriptors = reader.take<std::uint16_t>();
  if (kind != WorkerKind::outcome || status != 0 || descriptors != 0) return std::nullopt;
  return RingOutcome{.task = TaskId{reader.take<std::uint64_t>()},
                     .value = message.subspan(kHeadBytes)};
}

Result<std::uint16_t> worker_descriptor_count(ByteView message) {
  ByteReader reader(message);
  reader.take<std::uint16_t>();  // kind and status
  const auto count = reader.take<std::uint16_t>();
  if (reader.failed()) return malformed("it is cut off");
  if (count > kMaxFrameDescriptors) {
    return malformed(fmt::format("it announces {} descriptors; at most {} are allowed", count,
                                 kMaxFrameDescriptors));
  }
  return count;
}

Result<WorkerMessage> decode_worker_message(SharedBytes message, std::vector<Blob> blobs) {
  if (blobs.size() > kMaxFrameDescriptors) return malformed("it brings too many blobs");
  Decoder decoder(std::move(message), std::move(blobs));
  WorkerMessage decoded = decoder.decode();
  if (!decoder.problem().empty()) return malformed(decoder.problem());
  return decoded;
}

}  // namespace skyward::wire
