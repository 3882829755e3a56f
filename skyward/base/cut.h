#pragma once

// How the messages of a byte stream are told apart: each begins with a prefix of fixed size, which
// says what follows. The wire reads the prefix and computes a Cut; io reads the stream by that.

#include <cstddef>

namespace skyward {

struct Cut {
  std::size_t head_bytes = 0;   // directly after the prefix
  std::size_t body_bytes = 0;   // after the head
  std::size_t descriptors = 0;  // that come beside the bytes
};

}  // namespace skyward
