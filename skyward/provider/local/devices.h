#pragma once

// The GPUs of this machine, and which of them each local node gets: nodes share the machine, so no
// GPU goes to two of them, unless less than a whole one was asked for.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/accelerator.h"

namespace skyward::provider {

struct Device {
  int index = 0;     // as nvidia-smi counts
  std::string name;  // the catalogue's, where it has it
  double memory_gb = 0;
  bool operator==(const Device&) const = default;
};

// The query whose answer is parsed here.
std::vector<std::string> device_query(std::string program);
// Rows "index, name, MiB".
std::vector<Device> parse_devices(std::string_view text);

// The devices for all nodes of a pool, in order; an error that says what there is when they are not
// enough.
Result<std::vector<int>> choose_devices(const std::vector<Device>& devices,
                                        const Accelerator& wanted, int nodes);
// What one node gets of them, joined by ','.
std::string devices_of_node(const std::vector<int>& chosen, double count, int node);

}  // namespace skyward::provider
