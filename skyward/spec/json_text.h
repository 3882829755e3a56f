#pragma once

// JSON strings spelled exactly as Python's json.dumps spells them, because hashes are made from the
// text and Python reads and writes the same values: pure ASCII, \uXXXX in lower case, surrogate
// pairs above U+FFFF.

#include <string>
#include <string_view>

namespace skyward {

// Appends `utf8` to `out` between quotes. A byte that is not UTF-8 becomes \udcXX, as in Python
// strings that came from the operating system.
void append_json_string(std::string& out, std::string_view utf8);
std::string json_string(std::string_view utf8);

}  // namespace skyward
