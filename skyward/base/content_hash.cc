#include "skyward/base/content_hash.h"

#include <algorithm>
#include <cstring>

#include "skyward/base/hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace skyward {
namespace {

constexpr std::size_t kTermBytes = 16;
// x^128 = x^7 + x^2 + x + 1.
constexpr std::uint64_t kModulus = 0x87;

using Value = ContentHash::Value;

// The last block is filled up with zeros; the name tells its length apart.
Value term_at(ByteView bytes, std::size_t offset) {
  Value block{};
  std::memcpy(block.data(), bytes.data() + offset, std::min(kTermBytes, bytes.size() - offset));
  return block;
}

Value product_plain(Value left, const Value& right) {
  Value sum{};
  for (int bit = 127; bit >= 0; --bit) {
    const bool carry = (sum[1] >> 63) != 0;
    sum = {sum[0] << 1 ^ (carry ? kModulus : 0), sum[1] << 1 | sum[0] >> 63};
    if ((right[static_cast<std::size_t>(bit) / 64] >> (bit % 64) & 1) != 0) {
      sum[0] ^= left[0];
      sum[1] ^= left[1];
    }
  }
  return sum;
}

#if defined(__x86_64__)

#define SKYWARD_PRODUCTS __attribute__((target("pclmul")))

// A product of 256 bits, or a sum of such: low + middle * x^64 + high * x^128.
struct Wide {
  __m128i low = _mm_setzero_si128();
  __m128i middle = _mm_setzero_si128();
  __m128i high = _mm_setzero_si128();
};

SKYWARD_PRODUCTS inline void add_product(Wide& sum, __m128i left, __m128i right) {
  sum.low = _mm_xor_si128(sum.low, _mm_clmulepi64_si128(left, right, 0x00));
  sum.high = _mm_xor_si128(sum.high, _mm_clmulepi64_si128(left, right, 0x11));
  const __m128i crossed = _mm_xor_si128(_mm_clmulepi64_si128(left, right, 0x01),
                                        _mm_clmulepi64_si128(left, right, 0x10));
  sum.middle = _mm_xor_si128(sum.middle, crossed);
}

SKYWARD_PRODUCTS inline __m128i reduced(const Wide& sum) {
  const __m128i low = _mm_xor_si128(sum.low, _mm_slli_si128(sum.middle, 8));
  const __m128i high = _mm_xor_si128(sum.high, _mm_srli_si128(sum.middle, 8));
  const __m128i modulus = _mm_cvtsi64_si128(kModulus);
  const __m128i upper = _mm_clmulepi64_si128(high, modulus, 0x01);  // at x^64
  const __m128i lower = _mm_clmulepi64_si128(high, modulus, 0x00);
  const __m128i rest = _mm_clmulepi64_si128(_mm_srli_si128(upper, 8), modulus, 0x00);
  return _mm_xor_si128(_mm_xor_si128(low, lower), _mm_xor_si128(_mm_slli_si128(upper, 8), rest));
}

inline __m128i load_term(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

SKYWARD_PRODUCTS Value value_x86(const Value& point, ByteView bytes) {
  constexpr std::size_t kAtOnce = 8;  // one reduction for so many products
  __m128i powers[kAtOnce];
  powers[0] = load_term(point.data());
  for (std::size_t i = 1; i < kAtOnce; ++i) {
    Wide next;
    add_product(next, powers[i - 1], powers[0]);
    powers[i] = reduced(next);
  }
  __m128i sum = _mm_setzero_si128();
  std::size_t offset = 0;
  for (; bytes.size() - offset >= kAtOnce * kTermBytes; offset += kAtOnce * kTermBytes) {
    Wide wide;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      __m128i block = load_term(bytes.data() + offset + i * kTermBytes);
      if (i == 0) block = _mm_xor_si128(block, sum);
      add_product(wide, block, powers[kAtOnce - 1 - i]);
    }
    sum = reduced(wide);
  }
  for (; offset < bytes.size(); offset += kTermBytes) {
    const Value block = term_at(bytes, offset);
    Wide wide;
    add_product(wide, _mm_xor_si128(sum, load_term(block.data())), powers[0]);
    sum = reduced(wide);
  }
  Value value;
  std::memcpy(value.data(), &sum, sizeof value);
  return value;
}

bool has_products() { return __builtin_cpu_supports("pclmul") != 0; }

#else

Value value_x86(const Value& point, ByteView bytes) {
  return ContentHash::value_plain(point, bytes);
}
bool has_products() { return false; }

#endif

}  // namespace

Value ContentHash::value_plain(const Value& point, ByteView bytes) {
  Value sum{};
  for (std::size_t offset = 0; offset < bytes.size(); offset += kTermBytes) {
    const Value block = term_at(bytes, offset);
    sum = product_plain({sum[0] ^ block[0], sum[1] ^ block[1]}, point);
  }
  return sum;
}

Value ContentHash::value(const Value& point, ByteView bytes) {
  return has_products() ? value_x86(point, bytes) : value_plain(point, bytes);
}

ContentHash::ContentHash(std::string_view secret) {
  const Sha256 digest = sha256(as_bytes(secret));
  std::memcpy(point_.data(), digest.data(), sizeof point_);
  std::memcpy(cover_.data(), digest.data() + sizeof point_, sizeof cover_);
}

ContentHash::Name ContentHash::operator()(ByteView bytes) const {
  std::array<std::uint64_t, 7> hidden{cover_[0], cover_[1], bytes.size()};
  if (has_products()) {
    const Value at = value_x86(point_, bytes);
    std::ranges::copy(at, hidden.begin() + 3);
  } else {
    const Sha256 digest = sha256(bytes);
    std::memcpy(&hidden[3], digest.data(), digest.size());
  }
  const Sha256 digest = sha256(std::as_bytes(std::span(hidden)));
  Name name;
  std::copy_n(digest.begin(), name.size(), name.begin());
  return name;
}

}  // namespace skyward
