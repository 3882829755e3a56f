#pragma once

// SHA-256: names things by their content (function bodies, images, environments). The same bytes
// have the same name on every machine and in every language. Uses the processor's SHA instructions
// where it has them.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "skyward/base/bytes.h"

namespace skyward {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(ByteView bytes);

// The same without special instructions: what machines that lack them compute.
Sha256 sha256_plain(ByteView bytes);

// The bytes themselves.
inline std::string_view as_text(const Sha256& digest) {
  return as_text(std::as_bytes(std::span(digest)));
}

// Lower-case hex digits, two a byte, first byte first.
std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace skyward
