#pragma once

// What RunPod has on sale: kinds of GPUs, of processors, data centres.

#include <span>
#include <string_view>
#include <vector>

namespace skyward::doubles {

struct PodGpu {
  std::string_view id{};    // "NVIDIA H100 80GB HBM3"
  std::string_view name{};  // "H100 SXM"
  std::string_view manufacturer = "NVIDIA";
  int memory_gb = 0;
  double secure = 0;     // dollars an hour of one
  double community = 0;  // 0: not there
  int most_secure = 8;   // in one pod
  int most_community = 0;
  int vcpus = 0;  // with each
  int ram_gb = 0;
  std::vector<std::string_view> places{};  // of the secure cloud
};

struct PodCpu {
  std::string_view id{};  // "cpu5c"
  std::string_view name{};
  std::string_view group{};
  int most_vcpus = 32;
  double ram_gb = 0;  // with each
  double price = 0;   // of each
};

struct PodPlace {
  std::string_view id{};  // "US-TX-3"
  std::string_view name{};
  std::string_view region{};
  bool network = false;  // global networking
  bool volumes = false;
};

std::span<const PodGpu> pod_gpus();
std::span<const PodCpu> pod_cpus();
std::span<const PodPlace> pod_places();
// Of the drivers of its hosts, oldest first.
std::span<const std::string_view> cuda_versions();
// "12.8".
bool is_cuda_version(std::string_view text);
double cuda_number(std::string_view version);
const PodGpu* find_pod_gpu(std::string_view id);
const PodCpu* find_pod_cpu(std::string_view id);
const PodPlace* find_pod_place(std::string_view id);

}  // namespace skyward::doubles
