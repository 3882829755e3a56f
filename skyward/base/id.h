#pragma once

// Ids are types: a NodeId is not a TaskId and neither is an int. The tag names the kind, `value` is
// the number.

#include <compare>
#include <cstddef>
#include <functional>

namespace skyward {

template <typename Tag, typename Rep>
struct Id {
  Rep value{};

  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace skyward

template <typename Tag, typename Rep>
struct std::hash<skyward::Id<Tag, Rep>> {
  std::size_t operator()(const skyward::Id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
