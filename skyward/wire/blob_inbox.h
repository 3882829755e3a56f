#pragma once

// Puts blobs together that arrive in parts, and gives the messages that use them their memory.
// Pure: memory comes from the owner.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
    // How parts get there, where it is not best to copy them to `bytes`. May fail with `exhausted`.
    std::function<Status(std::uint64_t offset, ByteView part)> write{};
  };
  using Make = std::function<Result<Room>(std::uint64_t size)>;
  explicit BlobInbox(Make make) : make_(std::move(make)) {}

  // Fails with `invalid` when the part does not follow the one before it. Without memory for the
  // blob its parts are passed over; those who need it learn why.
  Status take(const BlobChunk& chunk);

  // A blob whose parts come from elsewhere: makes its memory now, if it has none. Fails with
  // `invalid` when it is here already with another size.
  Status expect(BlobId blob, const ContentId& content, std::uint64_t size);
  // The next bytes of an expected blob; as take().
  Status append(BlobId blob, ByteView bytes);

  // What is here of a blob. The bytes grow at their end, and stay where they are.
  struct Part {
    ByteView bytes;  // empty when there was no memory to keep them
    std::uint64_t received = 0;
    std::uint64_t size = 0;  // of the whole
  };
  std::optional<Part> find(BlobId blob) const;
  // ... by what it holds, for those who have other names for it.
  std::optional<Part> find(const ContentId& content) const;

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
    ContentId content{};
    Error error;  // when there is no room
    bool failed = false;
  };
  Entry& entry_of(BlobId blob, const ContentId& content, std::uint64_t size);
  static void store(Entry& entry, ByteView bytes);
  void erase(BlobId blob);

  Make make_;
  std::unordered_map<BlobId, Entry> blobs_;
  std::map<ContentId, BlobId> by_content_;
};

}  // namespace skyward::wire
