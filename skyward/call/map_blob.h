#pragma once

// Maps large arguments and results in a worker.

#include "skyward/base/bytes.h"
#include "skyward/wire/payload.h"

namespace skyward {

// The memory of a buffer, as a worker reads it: a blob came with its descriptor and is mapped
// privately. Throws SkywardError when it cannot be mapped.
SharedBytes map_blob(const wire::Buffer& buffer);

}  // namespace skyward
