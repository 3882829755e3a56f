#include "skyward/base/hmac.h"

#include <string>

#include "skyward/base/bytes.h"

namespace skyward {

Sha256 hmac_sha256(std::string_view key, std::string_view text) {
  constexpr std::size_t kBlock = 64;
  Sha256 short_key{};
  if (key.size() > kBlock) {
    short_key = sha256(as_bytes(key));
    key = as_text(short_key);
  }
  std::string inner(kBlock, '\x36');
  std::string outer(kBlock, '\x5c');
  for (std::size_t i = 0; i < key.size(); ++i) {
    inner[i] = static_cast<char>(inner[i] ^ key[i]);
    outer[i] = static_cast<char>(outer[i] ^ key[i]);
  }
  inner += text;
  outer += as_text(sha256(as_bytes(inner)));
  return sha256(as_bytes(outer));
}

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned differences = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    differences |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return differences == 0;
}

}  // namespace skyward
