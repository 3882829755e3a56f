#pragma once

// Vast.ai, a market of other people's machines. docs/guide/vastai.md says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <optional>
#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct VastAI {
  // Your key. Default: `$VAST_API_KEY`, else from the file of its command-line program.
  std::optional<std::string> api_key{};
  // Minimum reliability of the host, from 0 to 1. Default: 0.95.
  std::optional<double> min_reliability{};
  // Only hosts that Vast.ai has verified. Default: true.
  std::optional<bool> verified_only{};
  // Minimum CUDA version that the host's driver supports; 13.0 for PyTorch. Default: 12.
  std::optional<double> min_cuda{};
  // Countries, by their two letters, such as `"US"` or `"NO,SE"`. Default: any.
  std::optional<std::string> geolocation{};
  // The bid, as a multiple of the lowest one; at least 1. Default: 1.2.
  std::optional<double> bid_multiplier{};
  // Time limit for a machine to start, in seconds; then Skyward tries another one. Raise it for a
  // large `docker_image`. Default: 300.
  std::optional<int> instance_timeout{};
  // Time limit for one attempt of a request, in seconds. Default: 30.
  std::optional<int> request_timeout{};
  // The image that the machine runs; it must be a Debian or Ubuntu image. Default: NVIDIA's image
  // with CUDA 12.0.
  std::optional<std::string> docker_image{};
  // The size of a machine's disk. Default: 100.
  std::optional<int> disk_gb{};
  // Ignored: nodes cannot reach each other. Default: true.
  std::optional<bool> use_overlay{};
  // Ignored. Default: 120.
  std::optional<int> overlay_timeout{};
  // Ignored: Skyward rents only machines with their own port. Default: false.
  std::optional<bool> require_direct_port{};
  // `"community"` allows everybody's machines, whose owners can read everything on them. Default:
  // "datacenters".
  std::optional<std::string> trust{};
  operator ProviderSpec() const;
};

}  // namespace skyward
