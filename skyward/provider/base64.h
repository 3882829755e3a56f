#pragma once

// Bytes as text, by RFC 4648 with its standard alphabet and padding.

#include <string>
#include <string_view>

namespace skyward::provider {

std::string base64(std::string_view bytes);

}  // namespace skyward::provider
