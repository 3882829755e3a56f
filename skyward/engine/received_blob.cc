#include "skyward/engine/received_blob.h"

#include <fmt/format.h>

namespace skyward::engine {

Result<std::shared_ptr<io::SharedMemory>> ReceivedBlob::map(std::uint64_t size) {
  const std::scoped_lock lock(mutex_);
  if (!memory_) {
    auto mapped = io::SharedMemory::map_private(descriptor_.get(), 0);
    if (!mapped) return mapped;
    memory_ = *std::move(mapped);
    descriptor_.reset();
  }
  memory_->close_descriptor();
  if (memory_->size() >= size) return memory_;
  return fail(ErrorKind::invalid,
              fmt::format("a received buffer was announced with {} bytes, but has {}", size,
                          memory_->size()));
}

}  // namespace skyward::engine
