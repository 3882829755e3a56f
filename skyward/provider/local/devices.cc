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
// Drivers and desktops keep some hundred MiB of an idle GPU: differences below this do not count.
constexpr double kUseStep_mib = 512;
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
std::size_t devices_per_share(double count) { return static_cast<std::size_t>(std::ceil(count)); }

// "; GPU 0 is split into 3g.40gb, 3g.40gb" for each.
std::string how_split(const std::vector<Device>& devices) {
  std::string text;
  for (const Device& device : devices) {
    text +=
        fmt::format("; GPU {} is split{}{}", device.index,
                    device.partitions.empty() ? "" : " into ", fmt::join(device.partitions, ", "));
  }
  return text;
}

// The part of a hint that says how these become whole again, or lose their partitions.
std::string how_to_join(const std::vector<Device>& devices, bool in_partitions) {
  if (devices.empty()) return {};
  std::vector<int> indices;
  indices.reserve(devices.size());
  for (const Device& device : devices) indices.push_back(device.index);
  const std::string list = fmt::format("{}", fmt::join(indices, ","));
  if (!in_partitions) {
    return fmt::format("run 'sudo nvidia-smi -i {} -mig 0' if nobody uses the partitions, ", list);
  }
  return fmt::format(
      "run 'sudo nvidia-smi mig -i {0} -dci; sudo nvidia-smi mig -i {0} -dgi' if "
      "nobody uses the partitions, ",
      list);
}

}  // namespace

std::vector<std::string> device_query(std::string program) {
  return {std::move(program),
          "--query-gpu=index,name,memory.total,uuid,mig.mode.current,memory.used",
          "--format=csv,noheader,nounits"};
}

std::vector<Device> parse_devices(std::string_view text) {
  constexpr std::size_t kColumns = 6;
  std::vector<Device> devices;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> columns = split(line, ',');
    const auto index = parsed(columns[0]);
    if (columns.size() != kColumns || !index) continue;
    devices.push_back({.index = static_cast<int>(*index),
                       .name = device_model_name(columns[1]),
                       .memory_gb = parsed(columns[2]).value_or(0) / kMibPerGib,
                       .uuid = std::string(columns[3]),
                       .split = columns[4] == "Enabled",
                       .used_mib = parsed(columns[5]).value_or(0)});
  }
  return devices;
}

// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)", "MIG 3g.40gb     Device  0: (UUID: MIG-…)"
void add_partitions(std::vector<Device>& devices, std::string_view list) {
  constexpr std::string_view kGpu = "GPU ";
  constexpr std::string_view kPartition = "MIG ";
  auto device = devices.end();
  for (std::string_view line : split(list, '\n')) {
    if (line.starts_with(kGpu)) {
      const auto index = parsed(line.substr(kGpu.size()));
      device = std::ranges::find_if(devices, [&](const Device& one) { return one.index == index; });
    } else if (line.starts_with(kPartition) && device != devices.end()) {
      line.remove_prefix(kPartition.size());
      device->partitions.emplace_back(line.substr(0, line.find(' ')));
    }
  }
  for (Device& one : devices) std::ranges::sort(one.partitions);
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
  std::vector<std::string> profiles = mig_partitions(wanted);
  std::ranges::sort(profiles);
  std::vector<int> chosen;
  std::vector<int> others;
  std::vector<Device> split_otherwise;
  std::vector<Device> idle_first = devices;
  std::ranges::stable_sort(idle_first, {}, [](const Device& device) {
    return std::floor(device.used_mib / kUseStep_mib);
  });
  for (const Device& device : idle_first) {
    if (!matches(wanted, device.name, device.memory_gb)) continue;
    if (device.split && !profiles.empty() && device.partitions == profiles) {
      chosen.push_back(device.index);
    } else if (device.split && (profiles.empty() || !device.partitions.empty())) {
      split_otherwise.push_back(device);
    } else {
      others.push_back(device.index);
    }
  }
  chosen.insert(chosen.end(), others.begin(), others.end());
  if (chosen.size() >= needed) {
    chosen.resize(needed);
    return chosen;
  }
  std::map<std::string, int> counts;
  for (const Device& device : devices) ++counts[device.name];
  std::vector<std::string> has;
  for (const auto& [name, count] : counts) has.push_back(fmt::format("{} {}", count, name));
  const std::string memory = wanted.memory_required ? " of " + wanted.memory : std::string();
  return fail(
      ErrorKind::invalid,
      fmt::format("accelerator: {} node{} with {:g} {}{} need{} {} on this machine, {} {}{}", nodes,
                  nodes == 1 ? "" : "s", wanted.count, wanted.name, memory, nodes == 1 ? "s" : "",
                  needed, are_all ? "which has" : "where CUDA_VISIBLE_DEVICES leaves",
                  has.empty() ? std::string("none") : fmt::format("{}", fmt::join(has, ", ")),
                  how_split(split_otherwise)),
      how_to_join(split_otherwise, !profiles.empty()) +
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
