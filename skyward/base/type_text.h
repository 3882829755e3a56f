#pragma once

// The names of types as people write them.

#include <string>
#include <typeinfo>

namespace skyward {

// "std::invalid_argument"; for what std::throw_with_nested() makes of an exception, that one's.
std::string type_text(const std::type_info& type);

}  // namespace skyward
