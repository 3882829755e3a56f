#include "skyward/base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace skyward {
namespace {

std::string hex(std::string_view text) { return to_hex(sha256(as_bytes(text))); }
std::string hex_plain(std::string_view text) { return to_hex(sha256_plain(as_bytes(text))); }

struct Vector {
  std::string input;
  std::string_view digest;
};

// The examples that NIST publishes with FIPS 180-4.
std::vector<Vector> published_vectors() {
  return {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
       "o"
       "pqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {"\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
}

TEST(Hash, GivesThePublishedDigests) {
  for (const Vector& vector : published_vectors()) {
    EXPECT_EQ(hex(vector.input), vector.digest) << vector.input.substr(0, 40);
    EXPECT_EQ(hex_plain(vector.input), vector.digest) << vector.input.substr(0, 40);
  }
}

// Padding changes shape at 55, 56, 63 and 64 bytes: every length of the first blocks, chained, so
// that one wrong digest spoils the last. Expected value from another implementation (Python's
// hashlib).
TEST(Hash, PadsEveryLength) {
  std::string chained;
  for (std::size_t length = 0; length < 300; ++length) {
    for (std::size_t i = 0; i < length; ++i) chained += static_cast<char>(i * 7 % 256);
    const Sha256 digest = sha256(as_bytes(chained));
    EXPECT_EQ(digest, sha256_plain(as_bytes(chained))) << length;
    chained.assign(digest.begin(), digest.end());
  }
  EXPECT_EQ(
      to_hex(std::span(reinterpret_cast<const std::uint8_t*>(chained.data()), chained.size())),
      "7807053b4905eb2bb9d0e1241151b339356bff2f22dea7f624450e5e140d9399");
}

TEST(Hash, ReadsBytesAtAnyAddress) {
  const std::string text(257, 'x');
  for (std::size_t start = 0; start < 16; ++start) {
    const std::string copy = text.substr(start);
    EXPECT_EQ(sha256(as_bytes(text).subspan(start)), sha256(as_bytes(copy)));
  }
}

TEST(Hash, HexKeepsOrderAndLeadingZeros) {
  const std::array<std::uint8_t, 4> bytes{0x00, 0x0f, 0xa0, 0xff};
  EXPECT_EQ(to_hex(bytes), "000fa0ff");
  EXPECT_EQ(to_hex({}), "");
}

}  // namespace
}  // namespace skyward
