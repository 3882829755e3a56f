#include "skyward/io/cpu_quota.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "skyward/io/file.h"

namespace skyward::io {
namespace {

// "0::/path"; lines of version 1 begin otherwise.
std::string group_in(const std::string& membership) {
  constexpr std::string_view kBeginning = "0::";
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kBeginning)) return line.substr(kBeginning.size());
  }
  return {};
}

// "150000 100000": 150 ms in each 100 ms. "max 100000": no limit.
std::optional<double> quota_in(const std::string& text) {
  std::istringstream words(text);
  double quota = 0;
  double period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root, const std::string& membership) {
  std::optional<double> least;
  std::string group = group_in(read_file(membership).value_or(""));
  for (;;) {
    while (group.ends_with('/')) group.pop_back();
    const auto quota = quota_in(read_file(root + group + "/cpu.max").value_or(""));
    if (quota) least = std::min(*quota, least.value_or(*quota));
    const std::size_t parent = group.rfind('/');
    if (parent == group.npos) return least;
    group.resize(parent);
  }
}

}  // namespace skyward::io
