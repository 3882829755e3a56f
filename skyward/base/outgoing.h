#pragma once

// A message of a byte stream as it is written: pieces in order, nothing copied. The wire makes it,
// and io writes it; cut.h is the way back.

#include <cstddef>
#include <memory>
#include <vector>

#include "skyward/base/bytes.h"

namespace skyward {

struct Outgoing {
  Bytes head{};  // prefix and header
  std::vector<SharedBytes> body{};
  std::vector<int> descriptors{};  // that go beside the bytes; borrowed until written
  std::vector<std::shared_ptr<const void>> keep{};  // what the descriptors and pieces need

  std::size_t size() const {
    std::size_t sum = head.size();
    for (const SharedBytes& piece : body) sum += piece.size();
    return sum;
  }
};

}  // namespace skyward
