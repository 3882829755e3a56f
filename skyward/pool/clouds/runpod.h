#pragma once

// RunPod: containers in its data centres, or on other people's machines. docs/guide/runpod.md says
// more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct RunPod {
  // Your key. Default: `$RUNPOD_API_KEY`, else from the file of its command-line program.
  std::optional<std::string> api_key{};
  // `"instant"` is refused: clusters cannot be rented yet. Default: "individual".
  std::optional<std::string> cluster_mode{};
  // Whether nodes can reach each other. Needs NVIDIA GPUs, on demand, in the data centres that have
  // such a network. Default: no.
  std::optional<bool> global_networking{};
  // `"community"`: other people's machines, whose owners can read everything on them. Default:
  // "secure".
  std::optional<std::string> cloud_type{};
  // The version of Ubuntu: `"22.04"`, `"24.04"`. Default: "newest".
  std::optional<std::string> ubuntu{};
  // The size of a pod's disk; at most 20 GB without GPUs. Default: 50.
  std::optional<int> container_disk_gb{};
  // The size of a second disk, at `volume_mount_path`: at least 10; 0: none. Pods without GPUs have
  // none. Default: 20.
  std::optional<int> volume_gb{};
  // Where the second disk is mounted. Default: "/workspace".
  std::optional<std::string> volume_mount_path{};
  // The id of a network volume, instead of the second disk.
  std::optional<std::string> network_volume{};
  // The name of a credential of Docker Hub that RunPod keeps for you. With one, images come from
  // there; `None` (in C++ `"none"`): none. Default: `"docker hub"`, if the account has it.
  std::optional<std::string> registry_auth{};
  // Data centres, such as `("US-TX-3", "EU-RO-1")`. Default: "global".
  std::optional<std::vector<std::string>> data_center_ids{};
  // Ports to open besides that of SSH. Default: "22/tcp".
  std::optional<std::vector<std::string>> ports{};
  // Time limit for a pod to start, in seconds, to which `instance_timeout` is added; then Skyward
  // tries another pod. Default: 300.
  std::optional<int> provision_timeout{};
  // Ignored: setting up a node may take ten minutes with every provider. Default: 600.
  std::optional<int> bootstrap_timeout{};
  // See `provision_timeout`. Default: 300.
  std::optional<int> instance_timeout{};
  // Time limit for one attempt of a request, in seconds. Default: 30.
  std::optional<int> request_timeout{};
  // The kind of processors of pods without GPUs: `"3c"` or `"5c"`. Default: "3c".
  std::optional<std::string> cpu_clock{};
  // Minimum CUDA version that the host's driver supports; 0: any. Default: 0.
  std::optional<double> min_cuda{};
  // The bid, as a multiple of the lowest one; at least 1. Default: 1.
  std::optional<double> bid_multiplier{};
  operator ProviderSpec() const;
};

}  // namespace skyward
