#include "skyward/provider/local/devices.h"
#include "skyward/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

namespace skyward::provider {

namespace {

constexpr double kMibPerGib = 1024;
constexpr double kRounding = 1e-9;  // 10 × 0.1 is a little less than 1

std::optional<double> parsed(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> device_query(std::string program) {
  return {std::move(program), "--query-gpu=index,name,memory.total",
          "--format=csv,noheader,nounits"};
}

std::vector<Device> parse_devices(std::string_view text) {
  std::vector<Device> devices;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find(',');
    const std::size_t last = line.rfind(',');
    if (first == std::string_view::npos || first == last) continue;
    const auto index = parsed(trimmed(line.substr(0, first)));
    if (!index) continue;
    const auto memory = parsed(trimmed(line.substr(last + 1)));
    devices.push_back({.index = static_cast<int>(*index),
                       .name = device_model_name(trimmed(line.substr(first + 1, last - first - 1))),
                       .memory_gb = memory.value_or(0) / kMibPerGib});
  }
  return devices;
}

Result<std::vector<int>> choose_devices(const std::vector<Device>& devices,
                                        const Accelerator& wanted, int nodes) {
  const auto needed = static_cast<std::size_t>(std::ceil(wanted.count * nodes - kRounding));
  std::vector<int> chosen;
  for (const Device& device : devices) {
    if (chosen.size() < needed && matches(wanted, device.name, device.memory_gb))
      chosen.push_back(device.index);
  }
  if (chosen.size() == needed) return chosen;
  std::map<std::string, int> counts;
  for (const Device& device : devices) ++counts[device.name];
  std::vector<std::string> has;
  for (const auto& [name, count] : counts) has.push_back(fmt::format("{} {}", count, name));
  const std::string memory = wanted.memory_required ? " of " + wanted.memory : std::string();
  return fail(
      ErrorKind::invalid,
      fmt::format("accelerator: {} node{} with {:g} {}{} need{} {} on this machine, which has {}",
                  nodes, nodes == 1 ? "" : "s", wanted.count, wanted.name, memory,
                  nodes == 1 ? "s" : "", needed,
                  has.empty() ? std::string("none") : fmt::format("{}", fmt::join(has, ", "))),
      "ask for fewer, leave accelerator out, or use a provider that rents such machines");
}

std::string devices_of_node(const std::vector<int>& chosen, double count, int node) {
  std::vector<int> own;
  const auto first = static_cast<std::size_t>(std::floor(count * node + kRounding));
  const auto many = static_cast<std::size_t>(std::ceil(count - kRounding));
  for (std::size_t i = first; i < first + many && i < chosen.size(); ++i) own.push_back(chosen[i]);
  return fmt::format("{}", fmt::join(own, ","));
}

}  // namespace skyward::provider
