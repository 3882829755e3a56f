#include "skyward/call/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "skyward/call/error.h"
#include "skyward/spec/limits.h"

namespace skyward {
namespace {

// More descriptors than this do not fit one message; what comes after stays in the stream, which is
// then a blob itself.
constexpr std::size_t kMaxBlobs = kMaxFrameDescriptors - 1;

constexpr std::string_view kBytes = "bytes";
constexpr std::string_view kMismatch =
    "hint: for one of the types, load() does not read what save() writes";

[[noreturn]] void ended_early(std::uint64_t wanted, std::string_view of, std::uint64_t left) {
  throw SerializationError(
      fmt::format("the received value ends early: {} {} wanted, {} bytes left\n{}", wanted, of,
                  left, kMismatch));
}

}  // namespace

ArchiveWriter::ArchiveWriter(BlobStore store)
    : cereal::OutputArchive<ArchiveWriter, cereal::AllowEmptyClassElision>(this),
      store_(std::move(store)) {
  payload_.buffers.emplace_back();  // the stream's place
}

bool ArchiveWriter::begin_blob(std::size_t size) {
  if (size < kBlobThresholdBytes) return false;
  const std::uint8_t apart = payload_.buffers.size() <= kMaxBlobs ? 1 : 0;
  write(&apart, 1);
  return apart == 1;
}

void ArchiveWriter::write_run(const void* data, std::size_t size) {
  if (!begin_blob(size)) return write(data, size);
  const ByteView bytes(static_cast<const std::byte*>(data), size);
  payload_.buffers.push_back(wire::blob_buffer(store_.put(bytes), 0, std::uint64_t{size}));
}

void ArchiveWriter::write_shared_run(const void* data, std::size_t size, StoredRun& stored) {
  if (!begin_blob(size)) return write(data, size);
  const std::lock_guard lock(stored.mutex);
  if (store_.id == 0 || stored.store != store_.id) {
    stored.blob = store_.put(ByteView(static_cast<const std::byte*>(data), size));
    stored.store = store_.id;
  }
  payload_.buffers.push_back(wire::blob_buffer(stored.blob, 0, std::uint64_t{size}));
}

wire::Payload ArchiveWriter::finish() {
  if (stream_.size() < kBlobThresholdBytes) {
    payload_.buffers[0] = wire::small_buffer(SharedBytes(std::move(stream_)));
  } else {
    payload_.buffers[0] = wire::blob_buffer(store_.put(stream_), 0, std::uint64_t{stream_.size()});
    stream_.clear();
  }
  return std::move(payload_);
}

ArchiveReader::ArchiveReader(const wire::Payload& payload, BufferMapper map)
    : cereal::InputArchive<ArchiveReader, cereal::AllowEmptyClassElision>(this),
      payload_(&payload),
      map_(map) {
  if (payload.buffers.empty()) ended_early(1, kBytes, 0);
  stream_ = map_(payload.buffers[0]);
}

SharedBytes ArchiveReader::take_from_stream(std::size_t size) {
  const std::size_t left = stream_.size() - position_;
  if (size > left) ended_early(size, kBytes, left);
  const ByteView view = stream_.view.subspan(position_, size);
  position_ += size;
  return {stream_.owner, view};
}

SharedBytes ArchiveReader::take_blob(std::size_t size) {
  if (next_buffer_ >= payload_->buffers.size()) ended_early(size, kBytes, 0);
  const wire::Buffer& buffer = payload_->buffers[next_buffer_++];
  if (buffer.size != size) ended_early(size, kBytes, buffer.size);
  return map_(buffer);
}

SharedBytes ArchiveReader::take_run(std::size_t size) {
  if (size < kBlobThresholdBytes) return take_from_stream(size);
  std::uint8_t apart = 0;
  read(&apart, 1);
  return apart != 0 ? take_blob(size) : take_from_stream(size);
}

// A run may be in the next buffer.
void ArchiveReader::check_count(std::uint64_t count) const {
  const std::uint64_t left = stream_.size() - position_;
  const bool has_next = next_buffer_ < payload_->buffers.size();
  const std::uint64_t next = has_next ? payload_->buffers[next_buffer_].size : 0;
  if (count <= std::max(left, next)) return;
  ended_early(count, "elements", std::max(left, next));
}

void ArchiveReader::expect_end() const {
  const std::size_t left = stream_.size() - position_;
  const std::size_t buffers = payload_->buffers.size() - next_buffer_;
  if (left == 0 && buffers == 0) return;
  throw SerializationError(fmt::format(
      "the received value does not end where it should: {} bytes and {} buffers are left\n{}", left,
      buffers, kMismatch));
}

void ArchiveReader::read(void* data, std::size_t size) {
  if (size == 0) return;
  std::memcpy(data, take_from_stream(size).view.data(), size);
}

void ArchiveReader::read_run(void* data, std::size_t size) {
  if (size == 0) return;
  std::memcpy(data, take_run(size).view.data(), size);
}

}  // namespace skyward
