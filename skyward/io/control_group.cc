#include "skyward/io/control_group.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "skyward/io/file.h"

namespace skyward::io {
namespace {

// "0::/path"; lines of version 1 begin otherwise.
std::string group_in(std::string_view membership) {
  constexpr std::string_view kBeginning = "0::";
  while (!membership.empty()) {
    const std::string_view line = membership.substr(0, membership.find('\n'));
    if (line.starts_with(kBeginning)) return std::string(line.substr(kBeginning.size()));
    membership.remove_prefix(std::min(membership.size(), line.size() + 1));
  }
  return {};
}

// Removes a positive number and what separates it from the next one. Without streams, which would
// make the agent half a megabyte larger.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number == 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return number;
}

// "150000 100000": 150 ms in each 100 ms. "max 100000": no limit.
std::optional<double> quota_in(std::string_view text) {
  const auto quota = take_number(text);
  const auto period = take_number(text);
  if (!quota || !period) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// "1073741824", or "max".
std::optional<std::uint64_t> bytes_in(std::string_view text) { return take_number(text); }

// What the group's file of that name and those of all groups above it say at the least.
template <typename Read>
auto tightest(const std::string& root, const std::string& membership, std::string_view name,
              Read read) {
  decltype(read(name)) least;
  std::string group = group_in(read_file(membership).value_or(""));
  for (;;) {
    while (group.ends_with('/')) group.pop_back();
    const auto limit = read(read_file(root + group + std::string(name)).value_or(""));
    if (limit) least = std::min(*limit, least.value_or(*limit));
    const std::size_t parent = group.rfind('/');
    if (parent == group.npos) return least;
    group.resize(parent);
  }
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root, const std::string& membership) {
  return tightest(root, membership, "/cpu.max", quota_in);
}

std::optional<std::uint64_t> memory_limit(const std::string& root, const std::string& membership) {
  return tightest(root, membership, "/memory.max", bytes_in);
}

}  // namespace skyward::io
