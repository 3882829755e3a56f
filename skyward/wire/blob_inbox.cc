#include "skyward/wire/blob_inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace skyward::wire {
namespace {

// Calls `visit` with each buffer of the message that is in a blob.
template <typename AnyMessage, typename Visit>
void for_each_window(AnyMessage& message, Visit visit) {
  const auto each = [&](auto& payload) {
    for (auto& buffer : payload.buffers) {
      if (buffer.in_blob()) visit(buffer);
    }
  };
  if (auto* run = std::get_if<RunTask>(&message)) {
    if (run->body.in_blob()) visit(run->body);
    each(run->arguments);
  } else if (auto* result = std::get_if<TaskResult>(&message)) {
    each(result->payload);
  } else if (auto* item = std::get_if<StreamItem>(&message)) {
    each(item->payload);
  }
}

}  // namespace

Status BlobInbox::take(const BlobChunk& chunk) {
  const auto [place, is_new] = blobs_.try_emplace(chunk.blob);
  Entry& entry = place->second;
  if (is_new) {
    entry.size = chunk.size;
    auto room = make_(chunk.size);
    if (room) {
      entry.room = *std::move(room);
    } else {
      entry.failed = true;
      entry.error = room.error();
    }
  }
  if (chunk.size != entry.size || chunk.offset != entry.received ||
      chunk.bytes.size() > entry.size - entry.received) {
    return fail(ErrorKind::invalid,
                fmt::format("a part of blob {} came out of place: at {} instead of {}",
                            chunk.blob.value, chunk.offset, entry.received));
  }
  if (!entry.failed) {
    std::memcpy(entry.room.bytes.data() + chunk.offset, chunk.bytes.view.data(),
                chunk.bytes.size());
  }
  entry.received += chunk.bytes.size();
  return {};
}

Status BlobInbox::fill_in(Message& message) const {
  Status status;
  for_each_window(message, [&](Buffer& buffer) {
    if (buffer.blob.descriptor >= 0 || !status) return;
    const auto found = blobs_.find(buffer.blob.id);
    if (found == blobs_.end() || found->second.received != found->second.size ||
        buffer.blob.size != found->second.size) {
      status = fail(ErrorKind::invalid,
                    fmt::format("blob {} was not sent before it was used", buffer.blob.id.value),
                    "Report a bug.");
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
  for (const BlobId blob : blobs) blobs_.erase(blob);
}

void BlobInbox::drop_those_of(const Message& message) {
  for_each_window(message, [&](const Buffer& buffer) { blobs_.erase(buffer.blob.id); });
}

}  // namespace skyward::wire
