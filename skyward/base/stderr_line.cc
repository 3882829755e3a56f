#include "skyward/base/stderr_line.h"

#include <cstdio>

namespace skyward {

void write_stderr_line(std::string text) {
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace skyward
