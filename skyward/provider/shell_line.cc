#include "skyward/provider/shell_line.h"

#include <fmt/format.h>

#include "skyward/provider/base64.h"

namespace skyward::provider {

// Even between quotes, csh takes no line feed and replaces what begins with '!', and fish reads
// backslashes.
bool is_quotable(std::string_view text) {
  return text.find_first_of("'!\\\n") == std::string_view::npos;
}

std::string shell_line(std::string_view script) {
  if (is_quotable(script)) return fmt::format("exec sh -c '{}'", script);
  return fmt::format("exec sh -c 'eval \"$(echo {} | base64 -d)\"'", base64(script));
}

}  // namespace skyward::provider
