#include "skyward/call/map_blob.h"

#include <utility>

#include "skyward/call/error.h"
#include "skyward/io/shared_memory.h"

namespace skyward {

SharedBytes map_blob(const wire::Buffer& buffer) {
  if (!buffer.in_blob()) return buffer.bytes;
  auto mapped = io::map_bytes(buffer.blob.descriptor, buffer.offset + buffer.size);
  if (!mapped) throw_error(mapped.error());
  return {std::move(mapped->owner), mapped->view.subspan(buffer.offset, buffer.size)};
}

}  // namespace skyward
