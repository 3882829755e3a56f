#pragma once

// Files that should not leave this computer unasked: private keys, passwords, variables that a
// program reads at its start. They are known by their names alone. Pure.

#include <string_view>

namespace skyward {

// Of a name or a path.
bool may_be_secret(std::string_view path);

}  // namespace skyward
