#include "skyward/io/control_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "skyward/base/text.h"
#include "skyward/io/file.h"

namespace skyward::io {
namespace {

// The folders of this process's group and of all groups above it. Version 1 has a tree for each
// controller ("4:cpu,cpuacct:/path"), version 2 one for all ("0::/path"): then `controller` is
// empty.
std::vector<std::string> folders_of(const std::string& root, const std::string& membership,
                                    std::string_view controller) {
  const std::string text = read_file(membership).value_or("");
  std::vector<std::string> folders;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string names = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (!names.contains(fmt::format(",{},", controller))) continue;
    std::string group(line.substr(second + 1));
    while (true) {
      while (group.ends_with('/')) group.pop_back();
      folders.push_back(fmt::format("{}/{}{}", root, controller, group));
      const std::size_t parent = group.rfind('/');
      if (parent == group.npos) return folders;
      group.resize(parent);
    }
  }
  return folders;
}

std::string text_of(const std::string& folder, std::string_view name) {
  return read_file(fmt::format("{}/{}", folder, name)).value_or("");
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

// "1073741824", or "max". Version 1 has a huge number for none.
std::optional<std::uint64_t> bytes_in(std::string_view text) {
  constexpr std::uint64_t kNone = std::uint64_t{1} << 60;
  const auto bytes = take_number(text);
  return bytes && *bytes < kNone ? bytes : std::nullopt;
}

// The number on the line of memory.stat with this name; 0 without one.
std::uint64_t statistic_in(const std::string& text, std::string_view name) {
  if (name.empty()) return 0;
  const std::string all = "\n" + text;
  const std::string beginning = fmt::format("\n{} ", name);
  const std::size_t at = all.find(beginning);
  if (at == all.npos) return 0;
  std::string_view number = std::string_view(all).substr(at + beginning.size());
  return take_number(number).value_or(0);
}

// The files of a version's memory controller.
struct MemoryFiles {
  std::string_view controller;
  std::string_view limit;
  std::string_view used;
  // In memory.stat: files and the like, which the kernel drops when memory is short.
  std::array<std::string_view, 3> cache;
};
constexpr MemoryFiles kMemory1 = {.controller = "memory",
                                  .limit = "memory.limit_in_bytes",
                                  .used = "memory.usage_in_bytes",
                                  .cache = {"total_inactive_file", "total_active_file"}};
constexpr MemoryFiles kMemory2 = {.controller = "",
                                  .limit = "memory.max",
                                  .used = "memory.current",
                                  .cache = {"inactive_file", "active_file", "slab_reclaimable"}};

// The least that `read` finds in the folders of both versions.
template <typename Read>
auto least_of(const std::string& root, const std::string& membership, Read read) {
  decltype(read(std::string(), kMemory1)) least;
  for (const MemoryFiles& files : {kMemory1, kMemory2}) {
    for (const std::string& folder : folders_of(root, membership, files.controller)) {
      const auto value = read(folder, files);
      if (value) least = std::min(*value, least.value_or(*value));
    }
  }
  return least;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root, const std::string& membership) {
  std::optional<double> least;
  const auto count = [&least](const std::optional<double>& quota) {
    if (quota) least = std::min(*quota, least.value_or(*quota));
  };
  for (const std::string& folder : folders_of(root, membership, "")) {
    count(quota_in(text_of(folder, "cpu.max")));
  }
  for (const std::string& folder : folders_of(root, membership, "cpu")) {
    const std::string quota = text_of(folder, "cpu.cfs_quota_us");
    const std::string period = text_of(folder, "cpu.cfs_period_us");
    count(quota_in(fmt::format("{} {}", trimmed(quota), trimmed(period))));
  }
  return least;
}

std::optional<std::uint64_t> memory_limit(const std::string& root, const std::string& membership) {
  return least_of(root, membership, [](const std::string& folder, const MemoryFiles& files) {
    return bytes_in(text_of(folder, files.limit));
  });
}

std::optional<std::uint64_t> memory_room(const std::string& root, const std::string& membership) {
  return least_of(root, membership, [](const std::string& folder, const MemoryFiles& files) {
    auto room = bytes_in(text_of(folder, files.limit));
    if (!room) return room;
    const std::uint64_t used = bytes_in(text_of(folder, files.used)).value_or(0);
    const std::string statistics = text_of(folder, "memory.stat");
    std::uint64_t cache = 0;
    for (const std::string_view name : files.cache) cache += statistic_in(statistics, name);
    *room -= std::min(*room, used - std::min(used, cache));
    return room;
  });
}

}  // namespace skyward::io
