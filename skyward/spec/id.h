#pragma once

// The ids of the nouns. Numbers are given by the engine and are unique within one pool, unless said
// otherwise.

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "skyward/base/id.h"

namespace skyward {

// Its position in the pool, from 0. A machine that replaces another takes over its number.
using NodeId = Id<struct NodeTag, std::uint32_t>;
using TaskId = Id<struct TaskTag, std::uint64_t>;  // one call in flight, from 1; never used twice
using BlobId = Id<struct BlobTag, std::uint64_t>;  // one large buffer, from 1; 0 means "none"
using SlotId =
    Id<struct SlotTag, std::uint32_t>;  // place for one task on a node: worker × concurrency + k

// The cloud's own name of a machine, for example "i-0abc". Unique within one provider.
using InstanceId = std::string;

// First 16 bytes of the SHA-256 of a function's body: the same body has the same id everywhere.
struct FunctionId {
  std::array<std::uint8_t, 16> value{};
  auto operator<=>(const FunctionId&) const = default;
};

}  // namespace skyward

template <>
struct std::hash<skyward::FunctionId> {
  std::size_t operator()(const skyward::FunctionId& id) const noexcept {
    std::size_t first = 0;
    std::memcpy(&first, id.value.data(), sizeof first);
    return first;
  }
};
