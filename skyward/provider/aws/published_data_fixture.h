#pragma once

// Where Amazon's published test data lie, for the tests that are held to them. They are large and
// not part of this repository: their folder is named by SKYWARD_API_SPECS (the folder with aws/ in
// it), and without it those tests skip and say so.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "skyward/io/machine.h"

namespace skyward::provider::aws {

// Empty when they are not here.
inline std::string published_data() {
  const std::string root = io::environment_variable("SKYWARD_API_SPECS").value_or("");
  return !root.empty() && std::filesystem::is_directory(root + "/aws") ? root + "/aws" : "";
}

inline std::string slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Digits where the pattern has a 0, elsewhere the same.
inline bool looks_like(std::string_view value, std::string_view pattern) {
  return std::ranges::equal(value, pattern, [](char is, char wanted) {
    return wanted == '0' ? is >= '0' && is <= '9' : is == wanted;
  });
}

}  // namespace skyward::provider::aws
