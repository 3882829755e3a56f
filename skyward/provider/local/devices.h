#pragma once

// The GPUs of this machine, and which of them each local node gets: nodes share the machine, so no
// GPU goes to two of them, unless less than a whole one was asked for. A GPU that is split into
// partitions is left to pools that ask for these very partitions.

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
  std::string uuid{};                     // "GPU-…"
  bool split = false;                     // MIG is on: it works in partitions only
  double used_mib = 0;                    // of its memory, by whichever processes
  std::vector<std::string> partitions{};  // their profiles, sorted
  bool operator==(const Device&) const = default;
};

// The query whose answer is parsed here.
std::vector<std::string> device_query(std::string program);
// Rows "index, name, MiB, UUID, whether MIG is on, MiB in use".
std::vector<Device> parse_devices(std::string_view text);
// Adds the partitions that `nvidia-smi -L` lists below each device.
void add_partitions(std::vector<Device>& devices, std::string_view list);

// Those that the value of CUDA_VISIBLE_DEVICES shows, in its order: numbers and UUIDs or beginnings
// of them. As CUDA does, it ignores what stands behind the first that names none. Numbers are taken
// for nvidia-smi's.
std::vector<Device> visible_devices(const std::vector<Device>& devices, std::string_view variable);

// The devices for all nodes of a pool, in order, first those that are split as wanted, and of those
// and of the others first those with the least memory in use; an error that says what there is, and
// how to join what is split otherwise, when they are not enough. `are_all`: the program is confined
// to no others of the machine.
Result<std::vector<int>> choose_devices(const std::vector<Device>& devices,
                                        const Accelerator& wanted, int nodes, bool are_all = true);
// What one node gets of them, joined by ','.
std::string devices_of_node(const std::vector<int>& chosen, double count, int node);

}  // namespace skyward::provider
