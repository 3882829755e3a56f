#include "doubles/runpod_facts.h"

#include <algorithm>
#include <string>

#include "doubles/request.h"

namespace skyward::doubles {
namespace {

template <class Things>
auto find(const Things& all, std::string_view id) {
  const auto found = std::ranges::find(all, id, [](const auto& one) { return one.id; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::span<const PodGpu> pod_gpus() {
  static const auto& all = *new std::vector<PodGpu>{
      {"NVIDIA B200", "B200", "NVIDIA", 180, 5.98, 0, 8, 0, 28, 283, {"US-CA-2", "EU-RO-1"}},
      {"NVIDIA H200", "H200 SXM", "NVIDIA", 141, 3.59, 0, 8, 0, 24, 251, {"US-CA-2", "EUR-IS-1"}},
      {"NVIDIA H100 80GB HBM3",
       "H100 SXM",
       "NVIDIA",
       80,
       2.69,
       2.39,
       8,
       4,
       20,
       125,
       {"US-TX-3", "US-CA-2", "EU-NL-1"}},
      {"NVIDIA H100 PCIe", "H100 PCIe", "NVIDIA", 80, 2.39, 1.99, 8, 2, 16, 188, {"US-TX-3"}},
      {"NVIDIA H100 NVL", "H100 NVL", "NVIDIA", 94, 2.79, 2.59, 8, 2, 16, 94, {"EU-NL-1"}},
      {"NVIDIA A100-SXM4-80GB",
       "A100 SXM",
       "NVIDIA",
       80,
       1.49,
       1.39,
       8,
       4,
       16,
       125,
       {"US-TX-3", "CA-MTL-1"}},
      {"NVIDIA A100 80GB PCIe", "A100 PCIe", "NVIDIA", 80, 1.39, 1.19, 8, 2, 8, 117, {"EU-RO-1"}},
      {"AMD Instinct MI300X OAM", "MI300X", "AMD", 192, 1.99, 0, 8, 0, 24, 283, {"EU-RO-1"}},
      {"NVIDIA L40S", "L40S", "NVIDIA", 48, 0.86, 0.79, 8, 2, 16, 94, {"US-TX-3", "EU-NL-1"}},
      {"NVIDIA RTX A6000", "RTX A6000", "NVIDIA", 48, 0.49, 0.33, 8, 4, 9, 50, {"CA-MTL-1"}},
      {"NVIDIA GeForce RTX 5090",
       "RTX 5090",
       "NVIDIA",
       32,
       0.89,
       0.69,
       6,
       4,
       12,
       60,
       {"US-TX-3", "EU-RO-1"}},
      {"NVIDIA GeForce RTX 4090",
       "RTX 4090",
       "NVIDIA",
       24,
       0.59,
       0.34,
       6,
       4,
       8,
       41,
       {"US-TX-3", "EU-RO-1", "EUR-IS-1"}},
      {"NVIDIA GeForce RTX 3090", "RTX 3090", "NVIDIA", 24, 0.46, 0.22, 4, 4, 8, 31, {"CA-MTL-1"}},
  };
  return all;
}

std::span<const PodCpu> pod_cpus() {
  static constexpr PodCpu kAll[] = {
      {"cpu3c", "Compute-Optimized", "Gen 3", 32, 2, 0.03},
      {"cpu3g", "General Purpose", "Gen 3", 32, 4, 0.04},
      {"cpu5c", "Compute-Optimized", "Gen 5", 32, 2, 0.035},
      {"cpu5g", "General Purpose", "Gen 5", 32, 4, 0.045},
  };
  return kAll;
}

std::span<const PodPlace> pod_places() {
  static constexpr PodPlace kAll[] = {
      {"US-TX-3", "US Texas 3", "NORTH_AMERICA", true, true},
      {"US-CA-2", "US California 2", "NORTH_AMERICA", true, true},
      {"CA-MTL-1", "CA Montreal 1", "NORTH_AMERICA", false, true},
      {"EU-RO-1", "EU Romania 1", "EUROPE", true, true},
      {"EU-NL-1", "EU Netherlands 1", "EUROPE", false, false},
      {"EUR-IS-1", "EUR Iceland 1", "EUROPE", true, true},
  };
  return kAll;
}

std::span<const std::string_view> cuda_versions() {
  static constexpr std::string_view kAll[] = {"12.8", "13.0"};
  return kAll;
}

bool is_cuda_version(std::string_view text) {
  const std::size_t dot = text.find('.');
  return dot != std::string_view::npos && whole(text.substr(0, dot)) && whole(text.substr(dot + 1));
}

double cuda_number(std::string_view version) { return std::stod(std::string(version)); }

const PodGpu* find_pod_gpu(std::string_view id) { return find(pod_gpus(), id); }
const PodCpu* find_pod_cpu(std::string_view id) { return find(pod_cpus(), id); }
const PodPlace* find_pod_place(std::string_view id) { return find(pod_places(), id); }

}  // namespace skyward::doubles
