#include "skyward/pool/stored_blobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/call/error.h"
#include "skyward/engine/received_blob.h"
#include "skyward/pool/pool.h"
#include "skyward/spec/limits.h"

namespace skyward {
namespace {

// A function's body from here on is stored once and shared, not sent inside the call.
constexpr std::size_t kBlobBodyBytes = std::size_t{1} << 20;
// Where runs of one blob begin: vector instructions like whole cache lines.
constexpr std::size_t kRunAlignment = 64;

// Of all pools: none takes what another has stored for its own.
std::uint64_t new_blob_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

StoredBlobs::StoredBlobs(std::string_view secret)
    : arena_(io::Arena::create(kArenaKeepBytes)), content_(secret) {}

wire::Blob StoredBlobs::make_blob(std::shared_ptr<io::Arena::Segment> segment, std::size_t size) {
  wire::Blob blob{
      .id = BlobId{new_blob_id()}, .size = size, .descriptor = segment->memory->descriptor()};
  if (content_named_) {
    blob.content = content_({segment->memory->data(), size});
  }
  blob.storage = std::move(segment);
  return blob;
}

wire::Blob StoredBlobs::store(ByteView bytes) {
  auto segment = arena_->acquire(bytes.size());
  if (!segment) throw_error(segment.error());
  if (const Status filled = (*segment)->memory->fill(bytes); !filled) throw_error(filled.error());
  return make_blob(*std::move(segment), bytes.size());
}

std::vector<wire::Buffer> StoredBlobs::store_together(std::span<const ByteView> runs) {
  std::vector<std::size_t> offsets;
  std::size_t size = 0;
  for (const ByteView run : runs) {
    offsets.push_back(size);
    size += (run.size() + kRunAlignment - 1) / kRunAlignment * kRunAlignment;
  }
  auto segment = arena_->acquire(size);
  if (!segment) throw_error(segment.error());
  io::SharedMemory& memory = *(*segment)->memory;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ByteView run = runs[i];
    if (const Status written = memory.write(offsets[i], run); !written) {
      throw_error(written.error());
    }
    // The memory may be a used one: the same runs must make the same blob.
    const std::size_t end = offsets[i] + run.size();
    const std::size_t next = i + 1 < runs.size() ? offsets[i + 1] : size;
    std::fill_n(memory.data() + end, next - end, std::byte{});
  }
  const wire::Blob blob = make_blob(*std::move(segment), size);
  std::vector<wire::Buffer> buffers;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    buffers.push_back(wire::blob_buffer(blob, offsets[i], runs[i].size()));
  }
  return buffers;
}

std::shared_ptr<const FunctionBody> StoredBlobs::store(
    const std::shared_ptr<const FunctionBody>& function) {
  const std::uint64_t size = function->bytes.size;
  if (size < kBlobBodyBytes) return function;
  if (size > kMaxFunctionBytes) {
    throw_error({ErrorKind::invalid,
                 fmt::format("{} has {} bytes with what it refers to, more than {}", function->name,
                             size, kMaxFunctionBytes),
                 "pass large data as arguments, not inside the function"});
  }
  const std::scoped_lock lock(mutex_);
  if (const auto known = bodies_.find(function->id); known != bodies_.end()) {
    if (auto stored = known->second.lock()) return stored;
  }
  std::erase_if(bodies_, [](const auto& entry) { return entry.second.expired(); });
  const wire::Blob blob = store(function->bytes.bytes.view);
  retain(blob);  // agents map it
  auto stored = std::make_shared<const FunctionBody>(
      FunctionBody{function->id, wire::blob_buffer(blob, 0, blob.size), function->name});
  bodies_[function->id] = stored;
  return stored;
}

void StoredBlobs::retain(const wire::Blob& blob) {
  // Blobs with an id are those that store() made.
  if (blob.id == BlobId{} || !blob.storage) return;
  auto segment = std::static_pointer_cast<const io::Arena::Segment>(blob.storage);
  std::const_pointer_cast<io::Arena::Segment>(segment)->retained = true;
}

ByteView StoredBlobs::bytes(const wire::Blob& blob) {
  const auto segment = std::static_pointer_cast<const io::Arena::Segment>(blob.storage);
  return {segment->memory->data(), blob.size};
}

SharedBytes map_buffer(const wire::Buffer& buffer) {
  if (!buffer.in_blob()) return buffer.bytes;
  SKYWARD_CHECK(buffer.blob.id == BlobId{}, "only received blobs can be mapped");
  const auto received = std::const_pointer_cast<engine::ReceivedBlob>(
      std::static_pointer_cast<const engine::ReceivedBlob>(buffer.blob.storage));
  auto mapping = received->map(buffer.blob.size);
  if (!mapping) throw_error(mapping.error());
  SKYWARD_CHECK(buffer.offset + buffer.size <= (*mapping)->size());
  const ByteView view((*mapping)->data() + buffer.offset, buffer.size);
  return {*std::move(mapping), view};
}

}  // namespace skyward
