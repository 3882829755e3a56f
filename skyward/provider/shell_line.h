#pragma once

// Lines for a login shell, whichever it is (POSIX, csh, fish). Pure.

#include <string>
#include <string_view>

namespace skyward::provider {

// Whether each of these shells takes the text between single quotes as it is.
bool is_quotable(std::string_view text);

// A line that becomes `sh` with this script. Words after it are $0, $1 and so on.
std::string shell_line(std::string_view script);

}  // namespace skyward::provider
