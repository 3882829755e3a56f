#include "skyward/provider/keeping/standard_image.h"

#include <fmt/format.h>

#include "skyward/base/text.h"

namespace skyward::provider {

std::string standard_image(const PoolSpec& spec) {
  if (spec.runtime.python.empty()) return "debian:bookworm-slim";
  std::string python = spec.image.python;
  if (python.empty() || python == "auto") {
    python = value_at(spec.runtime.environment, "SKYWARD_CLIENT_PYTHON");
  }
  const std::size_t dot = python.find('.');
  const std::size_t end =
      dot == std::string::npos ? dot : python.find_first_not_of("0123456789", dot + 1);
  return fmt::format("python:{}-slim", python.empty() ? "3" : python.substr(0, end));
}

}  // namespace skyward::provider
