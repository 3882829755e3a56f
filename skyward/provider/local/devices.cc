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
constexpr double kRounding = 1e-9;  // 1 / (1.0 / 93) is a little less than 93

std::optional<double> parsed(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// How many nodes get the same devices: more than one where each wants less than a whole one.
double nodes_per_share(double count) {
  return count < 1 ? std::max(1.0, std::floor(1 / count + kRounding)) : 1;
}

// What each such group of nodes gets.
std::size_t devices_per_share(double count) {
  return static_cast<std::size_t>(std::ceil(count));
}

}  // namespace

std::vector<std::string> device_query(std::string program) {
  return {std::move(program), "--query-gpu=index,name,memory.total,uuid",
          "--format=csv,noheader,nounits"};
}

std::vector<Device> parse_devices(std::string_view text) {
  constexpr std::size_t kColumns = 4;
  std::vector<Device> devices;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> columns = split(line, ',');
    const auto index = parsed(columns[0]);
    if (columns.size() != kColumns || !index) continue;
    devices.push_back({.index = static_cast<int>(*index),
                       .name = device_model_name(columns[1]),
                       .memory_gb = parsed(columns[2]).value_or(0) / kMibPerGib,
                       .uuid = std::string(columns[3])});
  }
  return devices;
}

std::vector<Device> visible_devices(const std::vector<Device>& devices, std::string_view variable) {
  std::vector<Device> visible;
  for (const std::string_view word : split(variable, ',')) {
    const bool is_number = !word.empty() && std::ranges::all_of(word, is_digit);
    const auto is_named = [&](const Device& device) {
      return is_number ? fmt::format("{}", device.index) == word
                       : word.starts_with("GPU-") && device.uuid.starts_with(word);
    };
    const auto found = std::ranges::find_if(devices, is_named);
    if (found == devices.end()) break;
    visible.push_back(*found);
  }
  return visible;
}

Result<std::vector<int>> choose_devices(const std::vector<Device>& devices,
                                        const Accelerator& wanted, int nodes, bool are_all) {
  const auto shares = static_cast<std::size_t>(std::ceil(nodes / nodes_per_share(wanted.count)));
  const std::size_t needed = shares * devices_per_share(wanted.count);
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
      fmt::format("accelerator: {} node{} with {:g} {}{} need{} {} on this machine, {} {}", nodes,
                  nodes == 1 ? "" : "s", wanted.count, wanted.name, memory, nodes == 1 ? "s" : "",
                  needed, are_all ? "which has" : "where CUDA_VISIBLE_DEVICES leaves",
                  has.empty() ? std::string("none") : fmt::format("{}", fmt::join(has, ", "))),
      "ask for fewer, leave accelerator out, or use a provider that rents such machines");
}

std::string devices_of_node(const std::vector<int>& chosen, double count, int node) {
  std::vector<int> own;
  const std::size_t many = devices_per_share(count);
  const std::size_t first = static_cast<std::size_t>(node / nodes_per_share(count)) * many;
  for (std::size_t i = first; i < first + many && i < chosen.size(); ++i) own.push_back(chosen[i]);
  return fmt::format("{}", fmt::join(own, ","));
}

}  // namespace skyward::provider
