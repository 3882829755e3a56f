#pragma once

// The blobs of one message as it is encoded: each travels once, however many buffers are windows
// into it.

#include <array>
#include <cstddef>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

class DistinctBlobs {
 public:
  std::size_t count() const { return count_; }
  bool is_full() const { return count_ == blobs_.size(); }
  const Blob& operator[](std::size_t position) const { return *blobs_[position]; }

  // Where it is; count() if it is not there. The latest are looked at first.
  std::size_t find(const Blob& blob) const {
    for (std::size_t i = count_; i > 0; --i) {
      if (same_blob(*blobs_[i - 1], blob)) return i - 1;
    }
    return count_;
  }
  // One that is not there. It must outlive this.
  void add(const Blob& blob) {
    SKYWARD_CHECK(!is_full(),
                  "a payload has more than {} blobs; its maker must put several buffers in one",
                  blobs_.size());
    blobs_[count_++] = &blob;
  }

 private:
  std::array<const Blob*, kMaxFrameDescriptors> blobs_;  // the first count_
  std::size_t count_ = 0;
};

}  // namespace skyward::wire
