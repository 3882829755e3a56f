#include "skyward/wire/blob_inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace skyward::wire {

BlobInbox::Entry& BlobInbox::entry_of(BlobId blob, const ContentId& content, std::uint64_t size) {
  const auto [place, is_new] = blobs_.try_emplace(blob);
  Entry& entry = place->second;
  if (!is_new) return entry;
  entry.size = size;
  entry.content = content;
  if (content != ContentId{}) by_content_.insert_or_assign(content, blob);
  auto room = make_(size);
  if (room) {
    entry.room = *std::move(room);
  } else {
    entry.failed = true;
    entry.error = room.error();
  }
  return entry;
}

void BlobInbox::store(Entry& entry, ByteView bytes) {
  if (!entry.failed && entry.room.write) {
    if (const Status written = entry.room.write(entry.received, bytes); !written) {
      entry.room = {};
      entry.failed = true;
      entry.error = written.error();
    }
  } else if (!entry.failed) {
    std::memcpy(entry.room.bytes.data() + entry.received, bytes.data(), bytes.size());
  }
  entry.received += bytes.size();
}

Status BlobInbox::take(const BlobChunk& chunk) {
  Entry& entry = entry_of(chunk.blob, chunk.content, chunk.size);
  if (chunk.size != entry.size || chunk.offset != entry.received ||
      chunk.bytes.size() > entry.size - entry.received) {
    return fail(ErrorKind::invalid,
                fmt::format("a part of blob {} came out of place: at {} instead of {}",
                            chunk.blob.value, chunk.offset, entry.received));
  }
  store(entry, chunk.bytes.view);
  return {};
}

Status BlobInbox::expect(BlobId blob, const ContentId& content, std::uint64_t size) {
  const Entry& entry = entry_of(blob, content, size);
  if (entry.size == size && entry.content == content) return {};
  return fail(ErrorKind::invalid, fmt::format("blob {} is another one here", blob.value));
}

Status BlobInbox::append(BlobId blob, ByteView bytes) {
  const auto found = blobs_.find(blob);
  if (found == blobs_.end() || bytes.size() > found->second.size - found->second.received) {
    return fail(ErrorKind::invalid, fmt::format("blob {} does not go on here", blob.value));
  }
  store(found->second, bytes);
  return {};
}

std::optional<BlobInbox::Part> BlobInbox::find(BlobId blob) const {
  const auto found = blobs_.find(blob);
  if (found == blobs_.end()) return std::nullopt;
  const Entry& entry = found->second;
  Part part{.bytes = {}, .kept = !entry.failed, .received = entry.received, .size = entry.size};
  if (part.kept) part.bytes = ByteView(entry.room.bytes).first(entry.received);
  return part;
}

std::optional<BlobInbox::Part> BlobInbox::find(const ContentId& content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? std::nullopt : find(found->second);
}

Status BlobInbox::fill_in(Message& message) const {
  Status status;
  for_each_blob_buffer(message, [&](Buffer& buffer) {
    if (buffer.blob.descriptor >= 0 || !status) return;
    const auto found = blobs_.find(buffer.blob.id);
    if (found == blobs_.end() || found->second.received != found->second.size ||
        buffer.blob.size != found->second.size) {
      status = fail(ErrorKind::invalid,
                    fmt::format("blob {} was not sent before it was used", buffer.blob.id.value),
                    "report a bug");
    } else if (found->second.failed) {
      status = std::unexpected(found->second.error);
    } else {
      buffer.blob.descriptor = found->second.room.blob.descriptor;
      buffer.blob.storage = found->second.room.blob.storage;
    }
  });
  return status;
}

void BlobInbox::drop(std::span<const BlobId> blobs) {
  for (const BlobId blob : blobs) erase(blob);
}

void BlobInbox::drop_those_of(const Message& message) {
  for_each_blob_buffer(message, [&](const Buffer& buffer) { erase(buffer.blob.id); });
}

void BlobInbox::erase(BlobId blob) {
  const auto found = blobs_.find(blob);
  if (found == blobs_.end()) return;
  const auto known = by_content_.find(found->second.content);
  if (known != by_content_.end() && known->second == blob) by_content_.erase(known);
  blobs_.erase(found);
}

}  // namespace skyward::wire
