#pragma once

// The protocol between agents of one pool, inside io/tls.h. The reader connects and sends one
// request:
//
//     "SKYP" | u32 version | 16 bytes content | u64 size | u64 offset
//
// The source answers with parts until the reader has everything or either side closes:
//
//     u32 length | that many bytes      the next ones, from the offset on
//     u32 0                             nothing new, but alive
//     u32 0xffffffff                    it does not have the bytes any more; the connection ends
//
// Little-endian. Pure: others read and write the bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

inline constexpr std::uint32_t kPeerVersion = 1;
inline constexpr std::size_t kPeerRequestBytes = 40;
inline constexpr std::size_t kPeerPrefixBytes = 4;
// A reader may use a part as it arrives.
inline constexpr std::uint32_t kMaxPeerPartBytes = std::uint32_t{1} << 20;
inline constexpr std::uint32_t kPeerMissing = ~std::uint32_t{0};

struct PeerRequest {
  ContentId content{};
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  bool operator==(const PeerRequest&) const = default;
};

std::array<std::byte, kPeerRequestBytes> encode_peer_request(const PeerRequest& request);
// Fails with `invalid` on anything else, and with `unsupported` on another version.
Result<PeerRequest> decode_peer_request(ByteView bytes);

std::array<std::byte, kPeerPrefixBytes> encode_peer_prefix(std::uint32_t length);

// Parses an answer as it arrives.
class PeerReader {
 public:
  // The next of the answer's own bytes in `bytes`, which shrinks; empty when there are none (yet).
  // Fails with `invalid` on anything else, and with `unavailable` if the source does not have the
  // bytes.
  Result<ByteView> next(ByteView& bytes);

 private:
  std::array<std::byte, kPeerPrefixBytes> prefix_{};
  std::size_t prefix_bytes_ = 0;
  std::uint32_t left_ = 0;  // of the part
};

}  // namespace skyward::wire
