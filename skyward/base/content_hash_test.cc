#include "skyward/base/content_hash.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <set>
#include <vector>

namespace skyward {
namespace {

using Value = ContentHash::Value;

Bytes random_bytes(std::size_t size) {
  std::mt19937_64 source(size);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(source());
  return bytes;
}

TEST(ContentHash, TheInstructionsComputeThePolynomial) {
  const Value point{0x243f6a8885a308d3, 0xa4093822299f31d0};
  for (const std::size_t size :
       std::vector<std::size_t>{0, 1, 15, 16, 17, 127, 128, 129, 144, 255, 256, 1000, 4099}) {
    const Bytes bytes = random_bytes(size);
    EXPECT_EQ(ContentHash::value(point, bytes), ContentHash::value_plain(point, bytes)) << size;
  }
}

// x^127 * x = x^128 = x^7 + x^2 + x + 1.
TEST(ContentHash, ReducesByTheModulus) {
  Bytes bytes(16);
  bytes[15] = std::byte{0x80};
  EXPECT_EQ(ContentHash::value_plain({2, 0}, bytes), (Value{0x87, 0}));
}

TEST(ContentHash, DifferentBytesHaveDifferentNames) {
  const ContentHash hash("one");
  std::set<ContentHash::Name> names;
  for (std::size_t size = 0; size < 300; ++size) {
    EXPECT_TRUE(names.insert(hash(Bytes(size))).second) << size << " zeros";
  }
  Bytes bytes = random_bytes(1000);
  const auto name = hash(bytes);
  EXPECT_EQ(hash(Bytes(bytes)), name);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{1};
    EXPECT_TRUE(names.insert(hash(bytes)).second) << i;
    bytes[i] ^= std::byte{1};
  }
  EXPECT_EQ(hash(bytes), name);
  EXPECT_NE(ContentHash("two")(bytes), name) << "another secret";
}

}  // namespace
}  // namespace skyward
