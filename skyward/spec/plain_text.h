#pragma once

// What names, requirements and URLs may be made of.

#include <algorithm>
#include <string_view>

#include "skyward/base/text.h"

namespace skyward {

// Whether the text holds letters, digits and these signs, and nothing else.
constexpr bool is_made_of(std::string_view text, std::string_view signs) {
  return std::ranges::all_of(text, [&](char c) { return is_alphanumeric(c) || signs.contains(c); });
}

}  // namespace skyward
