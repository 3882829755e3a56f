#pragma once

// The manifest of a pool's pods, and the shell that keeps one. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/provider/keeping/keeping.h"
#include "skyward/provider/marks.h"

namespace skyward::provider::kubernetes {

inline constexpr const char* kContainer = "node";

// Where agents and keepers meet: in each pod's own memory, which any user of it may write to.
inline constexpr std::string_view kKeeperDirectory = "/dev/shm/skyward-keeper";
// As Capabilities::preemption has it.
inline constexpr const char* kNotice = "file:/dev/shm/skyward-keeper/notice";
// From the cluster's word that a pod must go to its end.
inline constexpr Duration kGrace = std::chrono::seconds(30);

// Labels by which `kubectl get pods -l` finds them.
inline constexpr const char* kManagedLabel = "app.kubernetes.io/managed-by";  // "skyward"
inline constexpr const char* kPoolLabel = "app.kubernetes.io/instance";       // the pool's id

// Empty: all of ours.
std::string selector_of(std::string_view pool);

// Which tainted nodes a pod may have.
struct Toleration {
  std::string key{};
  std::optional<std::string> value{};  // none: any
  std::string effect{};                // empty: any

  bool operator==(const Toleration&) const = default;
};

// A pod without a name. Empty or 0: as the cluster has it.
struct PodRequest {
  std::string image{};
  double cpus = 0;
  std::int64_t memory_mb = 0;
  std::string gpu_resource{};  // "nvidia.com/gpu"
  int gpus = 0;
  std::map<std::string, std::string> selector{};  // labels that its node has
  std::vector<Toleration> tolerations{};
  std::string service_account{};
  std::optional<std::int64_t> user{};  // whose id its processes have; none: as the image has it
  Duration life{};                     // from its start
  std::string keeper{};                // a script for sh
};

// What a pod takes of its node when nobody says it: else the scheduler takes it for nothing.
inline constexpr double kLeastCpus = 1;
inline constexpr std::int64_t kLeastMemory_mb = 1024;

// The container's first process. It writes a notice at SIGTERM, and goes on until its grace is over
// or the agent has ended.
std::string keeper_script(const KeeperTerms& terms);

// A List of pods with these names, as JSON.
std::string manifest_of(const PodRequest& request, const std::vector<std::string>& names,
                        const Mark& mark);

}  // namespace skyward::provider::kubernetes
