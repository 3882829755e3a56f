#include "skyward/call/map_blob.h"

#include <utility>

#include "skyward/call/error.h"
#include "skyward/io/shared_memory.h"

namespace skyward {

SharedBytes map_blob(const wire::Buffer& buffer) {
  if (!buffer.in_blob()) return buffer.bytes;
  auto memory = io::SharedMemory::map_private(buffer.blob.descriptor, buffer.offset + buffer.size);
  if (!memory) throw_error(memory.error());
  const ByteView view((*memory)->data() + buffer.offset, buffer.size);
  return {*std::move(memory), view};
}

}  // namespace skyward
