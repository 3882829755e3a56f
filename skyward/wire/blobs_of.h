#pragma once

// Which blobs the buffers of a payload are in.

#include <algorithm>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

// Each once.
inline std::vector<BlobId> blobs_of(const Payload& payload) {
  std::vector<BlobId> blobs;
  for (const Buffer& buffer : payload.buffers) {
    const BlobId blob = buffer.blob.id;
    if (buffer.in_blob() && std::ranges::find(blobs, blob) == blobs.end()) blobs.push_back(blob);
  }
  return blobs;
}

}  // namespace skyward::wire
