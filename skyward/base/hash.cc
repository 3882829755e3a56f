#include "skyward/base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace skyward {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kLengthBytes = 8;  // of the count of bits at the end of the last block

using State = std::array<std::uint32_t, 8>;

// FIPS 180-4 §5.3.3 and §4.2.2.
constexpr State kInitial{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
alignas(16) constexpr std::array<std::uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::byte* from) {
  return std::to_integer<std::uint32_t>(from[0]) << 24 |
         std::to_integer<std::uint32_t>(from[1]) << 16 |
         std::to_integer<std::uint32_t>(from[2]) << 8 | std::to_integer<std::uint32_t>(from[3]);
}

void add_block(State& state, const std::byte* block) {
  std::array<std::uint32_t, 64> schedule;
  for (std::size_t i = 0; i < 16; ++i) schedule[i] = load_big_endian(block + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t near = schedule[i - 2];
    const std::uint32_t far = schedule[i - 15];
    schedule[i] = (std::rotr(near, 17) ^ std::rotr(near, 19) ^ near >> 10) + schedule[i - 7] +
                  (std::rotr(far, 7) ^ std::rotr(far, 18) ^ far >> 3) + schedule[i - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & f) ^ (~e & g)) + kRound[i] + schedule[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const State mixed{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += mixed[i];
}

void add_blocks_plain(State& state, const std::byte* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += kBlockBytes) add_block(state, blocks);
}

#if defined(__x86_64__)

bool has_sha_instructions() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
         __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_SHA) != 0;
}

// The instructions keep the state as the halves ABEF and CDGH, and do two rounds at a time.
__attribute__((target("sha,sse4.1,ssse3"))) void add_blocks_x86(State& state,
                                                                const std::byte* blocks,
                                                                std::size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto load = [](const void* from) __attribute__((target("sha,sse4.1,ssse3"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i low = _mm_shuffle_epi32(load(&state[0]), 0xb1);   // CDAB
  const __m128i high = _mm_shuffle_epi32(load(&state[4]), 0x1b);  // EFGH
  __m128i abef = _mm_alignr_epi8(low, high, 8);
  __m128i cdgh = _mm_blend_epi16(high, low, 0xf0);
  for (; count > 0; --count, blocks += kBlockBytes) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    // The last sixteen words of the schedule; those of step i are in words[i % 4].
    __m128i words[4];
    for (std::size_t i = 0; i < 16; ++i) {
      __m128i& word = words[i % 4];
      if (i < 4) {
        word = _mm_shuffle_epi8(load(blocks + 16 * i), swap);
      } else {
        const __m128i last = words[(i + 3) % 4];
        const __m128i middle = _mm_alignr_epi8(last, words[(i + 2) % 4], 4);
        word = _mm_add_epi32(_mm_sha256msg1_epu32(word, words[(i + 1) % 4]), middle);
        word = _mm_sha256msg2_epu32(word, last);
      }
      const __m128i sum = _mm_add_epi32(word, load(&kRound[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i first = _mm_shuffle_epi32(abef, 0x1b);   // FEBA
  const __m128i second = _mm_shuffle_epi32(cdgh, 0xb1);  // DCHG
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(first, second, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(second, first, 8));
}

#endif

using AddBlocks = void (*)(State& state, const std::byte* blocks, std::size_t count);

AddBlocks fastest() {
#if defined(__x86_64__)
  if (has_sha_instructions()) return add_blocks_x86;
#endif
  return add_blocks_plain;
}

Sha256 digest(ByteView bytes, AddBlocks add_blocks) {
  State state = kInitial;
  const std::size_t whole = bytes.size() / kBlockBytes;
  add_blocks(state, bytes.data(), whole);

  // The rest, the bit 1, zeros, and the length in bits: one block or two.
  const ByteView rest = bytes.subspan(whole * kBlockBytes);
  std::array<std::byte, 2 * kBlockBytes> tail{};
  std::copy(rest.begin(), rest.end(), tail.begin());
  tail[rest.size()] = std::byte{0x80};
  const std::size_t blocks = rest.size() + 1 + kLengthBytes <= kBlockBytes ? 1 : 2;
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    tail[blocks * kBlockBytes - 1 - i] = static_cast<std::byte>(bits >> (8 * i) & 0xff);
  }
  add_blocks(state, tail.data(), blocks);

  Sha256 result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)) & 0xff);
  }
  return result;
}

}  // namespace

Sha256 sha256(ByteView bytes) {
  static const AddBlocks add_blocks = fastest();
  return digest(bytes, add_blocks);
}

Sha256 sha256_plain(ByteView bytes) { return digest(bytes, add_blocks_plain); }

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0x0f];
  }
  return text;
}

}  // namespace skyward
