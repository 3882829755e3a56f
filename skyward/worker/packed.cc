#include "skyward/worker/packed.h"

#include <cstdint>
#include <cstring>
#include <memory>

#include "skyward/call/error.h"

namespace skyward {
namespace {

wire::Blob keep(ByteView bytes) {
  auto kept = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  return {.id = {}, .size = bytes.size(), .storage = std::move(kept)};
}

ByteView bytes_of(const wire::Buffer& buffer) {
  if (!buffer.in_blob()) return buffer.bytes.view;
  return ByteView(*static_cast<const Bytes*>(buffer.blob.storage.get()))
      .subspan(buffer.offset, buffer.size);
}

}  // namespace

BlobStore memory_store() { return {.put = &keep}; }

std::string packed(const wire::Payload& payload) {
  std::string text;
  for (const wire::Buffer& buffer : payload.buffers) {
    const ByteView bytes = bytes_of(buffer);
    const std::uint64_t size = bytes.size();
    text.append(reinterpret_cast<const char*>(&size), sizeof size);
    text += as_text(bytes);
  }
  return text;
}

wire::Payload unpacked(const SharedBytes& bytes) {
  wire::Payload payload;
  for (ByteView rest = bytes.view; !rest.empty();) {
    std::uint64_t size = 0;
    if (rest.size() < sizeof size) throw SerializationError("packed bytes end early");
    std::memcpy(&size, rest.data(), sizeof size);
    rest = rest.subspan(sizeof size);
    if (rest.size() < size) throw SerializationError("packed bytes end early");
    payload.buffers.push_back(wire::small_buffer(SharedBytes(bytes.owner, rest.first(size))));
    rest = rest.subspan(size);
  }
  return payload;
}

}  // namespace skyward
