#pragma once

// HMAC with SHA-256 (RFC 2104): proves that who wrote a text knows a key.

#include <string_view>

#include "skyward/base/hash.h"

namespace skyward {

Sha256 hmac_sha256(std::string_view key, std::string_view text);

// Whether two texts are equal, in a time that depends on their lengths alone.
bool equal_in_constant_time(std::string_view one, std::string_view other);

}  // namespace skyward
