#pragma once

// A payload as one run of bytes, for the way between a worker and the ranks of its MPI world, which
// is a stream.

#include <string>

#include "skyward/base/bytes.h"
#include "skyward/call/archive.h"
#include "skyward/wire/payload.h"

namespace skyward {

// For archives that are packed: puts large runs into this process's own memory.
BlobStore memory_store();

// Of a payload whose large runs are in such memory.
std::string packed(const wire::Payload& payload);
// All its buffers are small: views of `bytes`. Throws SerializationError.
wire::Payload unpacked(const SharedBytes& bytes);

}  // namespace skyward
