#pragma once

// Large bytes that a pool sends, in shared memory: stored once, sent as often as calls use them.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/content_hash.h"
#include "skyward/call/call.h"
#include "skyward/io/shared_memory.h"
#include "skyward/wire/payload.h"

namespace skyward {

// Any thread; the calling thread copies.
class StoredBlobs {
 public:
  explicit StoredBlobs(std::string_view secret);  // of the names of contents

  // Names blobs by their content, for other machines to recognise them.
  void name_by_content(bool yes) { content_named_ = yes; }

  wire::Blob store(ByteView bytes);
  std::vector<wire::Buffer> store_together(std::span<const ByteView> runs);
  // The function as nodes get it. Large bytes are a blob, the same one for as long as tasks use it.
  std::shared_ptr<const FunctionBody> store(const std::shared_ptr<const FunctionBody>& function);

  // An agent has mapped it, so its memory is not reused.
  static void retain(const wire::Blob& blob);
  static ByteView bytes(const wire::Blob& blob);

  // Of what was sent, for the next large call.
  bool keeps_memory() const { return arena_->idle_bytes() > 0; }
  // What no call has used since the last time.
  void drop_unused_memory() { arena_->drop_unused(); }

 private:
  wire::Blob make_blob(std::shared_ptr<io::Arena::Segment> segment, std::size_t size);

  std::shared_ptr<io::Arena> arena_;
  std::atomic<bool> content_named_ = false;
  const ContentHash content_;
  std::mutex mutex_;
  std::unordered_map<FunctionId, std::weak_ptr<const FunctionBody>> bodies_;
};

}  // namespace skyward
