#include "skyward/engine/received_blob.h"

#include <fcntl.h>

#include <cerrno>

namespace skyward::engine {

Result<std::shared_ptr<io::SharedMemory>> ReceivedBlob::map(std::uint64_t size) {
  const std::scoped_lock lock(mutex_);
  if (mapping_ && mapping_->size() >= size) return mapping_;
  const int copy = ::fcntl(descriptor_.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return fail(ErrorKind::exhausted, "cannot map a received buffer: " + io::errno_text(errno));
  }
  auto mapped = io::SharedMemory::map_private(io::FileDescriptor(copy), size);
  if (mapped) mapping_ = *mapped;
  return mapped;
}

}  // namespace skyward::engine
