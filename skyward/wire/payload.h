#pragma once

// What a call or a result carries: opaque buffers. Buffer 0 is the serialized stream (a pickle, a
// cereal archive), the others are its large parts out of band (pickle protocol 5). A buffer travels
// inside its frame when it is small; from kBlobThresholdBytes on, it is a blob: stored once in
// shared memory, passed on by descriptor or by chunks, and referred to by id. Nothing in this room
// interprets the bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/spec/id.h"

namespace skyward::wire {

// A name of bytes that the engine has made (base/content_hash.h). Compared, never computed again.
using ContentId = std::array<std::uint8_t, 16>;

// One large run of bytes in shared memory. Copies share it.
struct Blob {
  BlobId id;                            // 0 for a blob that only one message carries (a result)
  std::uint64_t size = 0;               // bytes
  ContentId content{};                  // hash of the bytes; all zero: not known
  int descriptor = -1;                  // a memfd, owned by `storage`
  std::shared_ptr<const void> storage;  // keeps the descriptor (and any mapping) alive

  bool operator==(const Blob& other) const { return id == other.id && size == other.size; }
};

// Blobs that only one message carries have no id; their descriptors tell them apart.
inline bool same_blob(const Blob& one, const Blob& other) {
  return one == other && (one.id.value != 0 || one.descriptor == other.descriptor);
}

// A buffer is either small (`bytes`, blob.size == 0) or a window into a blob.
struct Buffer {
  SharedBytes bytes;
  Blob blob;
  std::uint64_t offset = 0;  // into the blob
  std::uint64_t size = 0;    // of the buffer, in both cases

  bool in_blob() const { return blob.size != 0; }
  bool empty() const { return size == 0; }
  bool operator==(const Buffer&) const = default;
};

inline Buffer small_buffer(SharedBytes bytes) {
  const std::uint64_t size = bytes.size();
  return {.bytes = std::move(bytes), .blob = {}, .offset = 0, .size = size};
}
inline Buffer blob_buffer(Blob blob, std::uint64_t offset, std::uint64_t size) {
  return {.bytes = {}, .blob = std::move(blob), .offset = offset, .size = size};
}

struct Payload {
  std::vector<Buffer> buffers;

  // Bytes of all buffers together.
  std::uint64_t size() const {
    std::uint64_t sum = 0;
    for (const Buffer& buffer : buffers) sum += buffer.size;
    return sum;
  }
  bool operator==(const Payload&) const = default;
};

}  // namespace skyward::wire
