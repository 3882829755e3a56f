#pragma once

// Names large bytes by their content several times as fast as SHA-256, for one process: a name
// means something only beside others that were made with the same secret.
//
// The bytes are the coefficients of a polynomial over GF(2^128), whose value at a secret point says
// whether two are the same: n blocks of two different ones agree at n points at most, so that they
// get the same name once in 2^128 / n. SHA-256 of that value and of another secret hides the
// point from those who see names.

#include <array>
#include <cstdint>
#include <string_view>

#include "skyward/base/bytes.h"

namespace skyward {

class ContentHash {
 public:
  using Name = std::array<std::uint8_t, 16>;

  // `secret`: random, and told to nobody.
  explicit ContentHash(std::string_view secret);
  // Without the processor's instruction for such products, SHA-256 does all of it.
  Name operator()(ByteView bytes) const;

  // The polynomial's value without special instructions, slowly: what tests compare with.
  using Value = std::array<std::uint64_t, 2>;
  static Value value_plain(const Value& point, ByteView bytes);
  // As above where there are such instructions.
  static Value value(const Value& point, ByteView bytes);

 private:
  Value point_{};
  Value cover_{};
};

}  // namespace skyward
