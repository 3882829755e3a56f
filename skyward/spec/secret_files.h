#pragma once

#include <string_view>

namespace skyward {

// Whether a file of this name or path may hold a secret: a private key, a password, variables that a
// program reads at its start.
bool may_be_secret(std::string_view path);

}  // namespace skyward
