#pragma once

// A blob as it came from an agent: memory of this process. It has no descriptor any more, so that
// results may be kept by the thousand.

#include <cstdint>
#include <memory>
#include <mutex>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/shared_memory.h"

namespace skyward::engine {

class ReceivedBlob {
 public:
  // Came as a descriptor.
  explicit ReceivedBlob(io::FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  // Comes in parts, which are written to `memory` until it is asked for.
  explicit ReceivedBlob(std::shared_ptr<io::SharedMemory> memory) : memory_(std::move(memory)) {}

  // Writable, and of nobody else; the same for all who ask. The first one closes the descriptor.
  // Any thread. Fails with `invalid` when the blob is smaller than `size`.
  Result<std::shared_ptr<io::SharedMemory>> map(std::uint64_t size);

 private:
  std::mutex mutex_;
  io::FileDescriptor descriptor_;
  std::shared_ptr<io::SharedMemory> memory_;
};

}  // namespace skyward::engine
