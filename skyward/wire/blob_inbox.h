#pragma once

// Assembles blobs that arrive in parts, and attaches their memory to the messages that use them.
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
    // How to write a part, if copying it to `bytes` is not the best way. May fail with `exhausted`.
    std::function<Status(std::uint64_t offset, ByteView part)> write{};
  };
  using Make = std::function<Result<Room>(std::uint64_t size)>;
  explicit BlobInbox(Make make) : make_(std::move(make)) {}

  // Fails with `invalid` when the part does not follow the one before it. Without memory for the
  // blob, its parts are skipped, and messages that need it fail with the reason.
  Status take(const BlobChunk& chunk);

  // Expects a blob whose parts come from elsewhere: allocates its memory now, if it has none. Fails
  // with `invalid` if the blob is already here with another size.
  Status expect(BlobId blob, const ContentId& content, std::uint64_t size);
  // The next bytes of an expected blob; as take().
  Status append(BlobId blob, ByteView bytes);

  // What has arrived of a blob. The bytes grow at their end, and do not move.
  struct Part {
    ByteView bytes;
    bool kept = true;  // false: there was no memory, and `bytes` stays empty
    std::uint64_t received = 0;
    std::uint64_t size = 0;  // of the whole blob
  };
  std::optional<Part> find(BlobId blob) const;
  // The same by content, for those who know the blob by another id.
  std::optional<Part> find(const ContentId& content) const;

  // Attaches memory to the buffers of a message that came without descriptors. Fails with the
  // reason if a blob could not be stored, or with `invalid` if one never came.
  Status fill_in(Message& message) const;

  // Drops blobs, even incomplete ones. Copies keep the memory alive.
  void drop(std::span<const BlobId> blobs);
  // Drops the blobs that the message uses: for messages that bring their own.
  void drop_those_of(const Message& message);

  std::size_t count() const { return blobs_.size(); }

 private:
  struct Entry {
    Room room;
    std::uint64_t size = 0;
    std::uint64_t received = 0;
    ContentId content{};
    Error error;  // if there was no memory
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
