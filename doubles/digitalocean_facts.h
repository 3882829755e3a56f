#pragma once

// What DigitalOcean rents out, and how its API describes it. Prices change; these are of one day.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doubles/request.h"

namespace skyward::doubles {

struct DropletSize {
  std::string_view slug{};
  std::string_view description{};
  int vcpus = 0;
  int memory_mb = 0;
  int disk_gb = 0;
  double transfer = 0;
  double hourly = 0;
  std::string_view places{};  // "nyc1 tor1"
  int gpus = 0;
  std::string_view gpu{};  // "nvidia_h100"
  int gpu_memory_gb = 0;

  std::vector<std::string> regions() const;
};

struct DropletRegion {
  std::string slug{};
  std::string name{};
};

struct DropletImage {
  std::int64_t id = 0;
  std::string slug{};
  std::string name{};
  std::string distribution{};
  std::string for_gpus{};  // "nvidia", "amd"
  int gpus = 0;            // only with so many; 0: any
};

std::span<const DropletSize> droplet_sizes();
const std::vector<DropletRegion>& droplet_regions();
const std::vector<DropletImage>& droplet_images();

// Null when there is none.
const DropletSize* find_size(const std::string& slug);
const DropletRegion* find_region(const std::string& slug);
const DropletImage* find_image(const Json& id_or_slug);

Json size_json(const DropletSize& size);
Json region_json(const DropletRegion& region);
Json image_json(const DropletImage& image);

}  // namespace skyward::doubles
