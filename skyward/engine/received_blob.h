#pragma once

// A blob as it came from an agent: its descriptor, mapped once when somebody first looks at it.

#include <cstdint>
#include <memory>
#include <mutex>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/shared_memory.h"

namespace skyward::engine {

class ReceivedBlob {
 public:
  explicit ReceivedBlob(io::FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}

  int descriptor() const { return descriptor_.get(); }
  // Private and writable; the same mapping for all who ask. Any thread.
  Result<std::shared_ptr<io::SharedMemory>> map(std::uint64_t size);

 private:
  std::mutex mutex_;
  io::FileDescriptor descriptor_;
  std::shared_ptr<io::SharedMemory> mapping_;
};

}  // namespace skyward::engine
