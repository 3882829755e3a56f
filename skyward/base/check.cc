#include "skyward/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace skyward {

void check_failed(const char* file, int line, const char* condition, std::string_view text) {
  std::fprintf(stderr, "skyward: bug at %s:%d: expected %s%s%.*s\n", file, line, condition,
               text.empty() ? "" : ": ", static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace skyward
