#pragma once

// Puts blobs together that arrive in parts, and gives the messages that use them their memory.
// Pure: memory comes from the owner.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>

#include "skyward/base/error.h"
#include "skyward/wire/message.h"

namespace skyward::wire {

class BlobInbox {
 public:
  // Memory for a blob: writable bytes, and the blob that holds them (descriptor and storage).
  struct Room {
    std::span<std::byte> bytes;
    Blob blob;
  };
  using Make = std::function<Result<Room>(std::uint64_t size)>;
  explicit BlobInbox(Make make) : make_(std::move(make)) {}

  // Fails with `invalid` when the part does not follow the one before it. Without memory for the
  // blob its parts are passed over; those who need it learn why.
  Status take(const BlobChunk& chunk);

  // Gives the buffers of a message that came without descriptors their memory. Fails with the
  // reason when a blob could not be stored, or with `invalid` when one never came.
  Status fill_in(Message& message) const;

  // Forgets blobs, also half-arrived ones. Those who hold copies keep the memory.
  void drop(std::span<const BlobId> blobs);
  // Forgets the blobs that the message uses: for messages that bring their own.
  void drop_those_of(const Message& message);

  std::size_t count() const { return blobs_.size(); }

 private:
  struct Entry {
    Room room;
    std::uint64_t size = 0;
    std::uint64_t received = 0;
    Error error;  // when there is no room
    bool failed = false;
  };
  Make make_;
  std::unordered_map<BlobId, Entry> blobs_;
};

}  // namespace skyward::wire
