#pragma once

// A blob that came from an agent, in this process's memory. It has no descriptor once it is read,
// so that a program can keep thousands of results.

#include <cstdint>
#include <memory>
#include <mutex>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/shared_memory.h"

namespace skyward::engine {

class ReceivedBlob {
 public:
  // Arrived as a descriptor.
  explicit ReceivedBlob(io::FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  // Arrives in parts, which are written to `memory` until somebody asks for it.
  explicit ReceivedBlob(std::shared_ptr<io::SharedMemory> memory) : memory_(std::move(memory)) {}

  // Writable, and used by nobody else; all callers get the same memory. The first call closes the
  // descriptor. Any thread. Fails with `invalid` if the blob is smaller than `size`.
  Result<std::shared_ptr<io::SharedMemory>> map(std::uint64_t size);

 private:
  std::mutex mutex_;
  io::FileDescriptor descriptor_;
  std::shared_ptr<io::SharedMemory> memory_;
};

}  // namespace skyward::engine
