#include "skyward/wire/peer_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "skyward/wire/little_endian.h"

namespace skyward::wire {
namespace {

constexpr std::string_view kPeerMagic = "SKYP";

}  // namespace

std::array<std::byte, kPeerRequestBytes> encode_peer_request(const PeerRequest& request) {
  std::array<std::byte, kPeerRequestBytes> bytes{};
  ByteWriter writer(bytes.data());
  writer.put_bytes(kPeerMagic.data(), kPeerMagic.size());
  writer.put(kPeerVersion);
  writer.put_bytes(request.content.data(), request.content.size());
  writer.put(request.size);
  writer.put(request.offset);
  return bytes;
}

Result<PeerRequest> decode_peer_request(ByteView bytes) {
  ByteReader reader(bytes);
  const ByteView magic = reader.take_bytes(kPeerMagic.size());
  const auto version = reader.take<std::uint32_t>();
  const ByteView content = reader.take_bytes(sizeof(ContentId));
  PeerRequest request;
  request.size = reader.take<std::uint64_t>();
  request.offset = reader.take<std::uint64_t>();
  if (reader.failed() || reader.left() > 0 || as_text(magic) != kPeerMagic) {
    return fail(ErrorKind::invalid, "not a peer request");
  }
  if (version != kPeerVersion) {
    return fail(ErrorKind::unsupported,
                fmt::format("it speaks version {}, this agent speaks {}", version, kPeerVersion));
  }
  if (request.offset > request.size) return fail(ErrorKind::invalid, "it asks past the end");
  std::memcpy(request.content.data(), content.data(), content.size());
  return request;
}

std::array<std::byte, kPeerPrefixBytes> encode_peer_prefix(std::uint32_t length) {
  std::array<std::byte, kPeerPrefixBytes> bytes{};
  store(bytes.data(), length);
  return bytes;
}

Result<ByteView> PeerReader::next(ByteView& bytes) {
  while (left_ == 0 && !bytes.empty()) {
    const std::size_t taken = std::min(kPeerPrefixBytes - prefix_bytes_, bytes.size());
    std::memcpy(prefix_.data() + prefix_bytes_, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    prefix_bytes_ += taken;
    if (prefix_bytes_ < kPeerPrefixBytes) break;
    prefix_bytes_ = 0;
    const auto length = load<std::uint32_t>(prefix_.data());
    if (length == kPeerMissing) return fail(ErrorKind::unavailable, "it does not have the bytes");
    if (length > kMaxPeerPartBytes) {
      return fail(ErrorKind::invalid, fmt::format("it announces a part of {} bytes", length));
    }
    left_ = length;
  }
  const ByteView part = bytes.first(std::min<std::size_t>(left_, bytes.size()));
  bytes = bytes.subspan(part.size());
  left_ -= static_cast<std::uint32_t>(part.size());
  return part;
}

}  // namespace skyward::wire
