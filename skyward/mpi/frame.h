#pragma once

// Messages of a stream that begin with their length: eight bytes, little-endian. Most carry JSON.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "skyward/base/bytes.h"
#include "skyward/base/cut.h"
#include "skyward/base/error.h"
#include "skyward/base/outgoing.h"

namespace skyward::mpi {

inline constexpr std::size_t kLengthBytes = 8;

inline std::uint64_t length_in(ByteView prefix) {
  std::uint64_t length = 0;  // little-endian like every machine that this is built for
  std::memcpy(&length, prefix.data(), sizeof length);
  return length;
}

// Anything longer is none of ours.
template <std::uint64_t kLongest>
Result<Cut> cut_short(ByteView prefix) {
  const std::uint64_t length = length_in(prefix);
  if (length == 0 || length > kLongest) return fail(ErrorKind::invalid, "no message of ours");
  return Cut{.head_bytes = static_cast<std::size_t>(length), .body_bytes = 0, .descriptors = 0};
}

// Paths and what programs print may be in any encoding.
inline std::string words_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

inline Bytes length_prefix(std::uint64_t length) {
  Bytes bytes(kLengthBytes);
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

inline Outgoing framed(SharedBytes body) {
  Outgoing message{.head = length_prefix(body.size())};
  if (!body.empty()) message.body.push_back(std::move(body));
  return message;
}

}  // namespace skyward::mpi
