#pragma once

// What a command left behind, where a double answers commands and not requests.

#include <string>

namespace skyward::doubles {

struct CommandReply {
  int code = 0;
  std::string out{};
  std::string err{};
};

}  // namespace skyward::doubles
