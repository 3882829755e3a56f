#include "doubles/digitalocean_facts.h"

#include <algorithm>

namespace skyward::doubles {
namespace {

constexpr DropletSize kSizes[] = {
    {"s-1vcpu-512mb-10gb", "Basic", 1, 512, 10, 0.5, 0.00595, "nyc1 fra1 sfo3"},
    {"s-1vcpu-1gb", "Basic", 1, 1024, 25, 1, 0.00893, "nyc1 nyc3 fra1 ams3 tor1"},
    {"s-1vcpu-2gb", "Basic", 1, 2048, 50, 2, 0.01786, "nyc1 nyc3 fra1 ams3 tor1"},
    {"s-2vcpu-2gb", "Basic", 2, 2048, 60, 3, 0.02679, "nyc1 nyc3 fra1 ams3 tor1"},
    {"s-2vcpu-4gb", "Basic", 2, 4096, 80, 4, 0.03571, "nyc1 nyc3 fra1 ams3 tor1"},
    {"s-4vcpu-8gb", "Basic", 4, 8192, 160, 5, 0.07143, "nyc1 nyc3 fra1 ams3 tor1"},
    {"s-8vcpu-16gb", "Basic", 8, 16384, 320, 6, 0.14286, "nyc1 nyc3 fra1 ams3"},
    {"c-2", "CPU-Optimized", 2, 4096, 25, 4, 0.0625, "nyc1 nyc3 fra1"},
    {"c-4", "CPU-Optimized", 4, 8192, 50, 5, 0.125, "nyc1 nyc3 fra1"},
    {"c-8", "CPU-Optimized", 8, 16384, 100, 6, 0.25, "nyc1 nyc3 fra1"},
    {"c-16", "CPU-Optimized", 16, 32768, 200, 7, 0.5, "nyc1 nyc3"},
    {"g-2vcpu-8gb", "General Purpose", 2, 8192, 25, 4, 0.09375, "nyc1 nyc3 fra1"},
    {"g-4vcpu-16gb", "General Purpose", 4, 16384, 50, 5, 0.1875, "nyc1 nyc3 fra1"},
    {"g-8vcpu-32gb", "General Purpose", 8, 32768, 100, 6, 0.375, "nyc1 nyc3 fra1"},
    {"g-16vcpu-64gb", "General Purpose", 16, 65536, 200, 7, 0.75, "nyc1 nyc3"},
    {"g-32vcpu-128gb", "General Purpose", 32, 131072, 400, 8, 1.5, "nyc1"},
    {"g-48vcpu-192gb-intel", "General Purpose", 48, 196608, 720, 9, 2.6994, ""},
    {"m-2vcpu-16gb", "Memory-Optimized", 2, 16384, 50, 4, 0.125, "nyc1 nyc3 fra1"},
    {"m-4vcpu-32gb", "Memory-Optimized", 4, 32768, 100, 6, 0.25, "nyc1 nyc3 fra1"},
    {"gpu-4000adax1-20gb", "RTX 4000 Ada GPU Droplet - 1X", 8, 32768, 500, 10, 0.76, "nyc2 tor1", 1,
     "nvidia_rtx4000_ada", 20},
    {"gpu-6000adax1-48gb", "RTX 6000 Ada GPU Droplet - 1X", 8, 65536, 500, 10, 1.57, "nyc2 tor1", 1,
     "nvidia_rtx6000_ada", 48},
    {"gpu-l40sx1-48gb", "L40S GPU Droplet - 1X", 8, 65536, 500, 10, 1.57, "nyc2 tor1", 1,
     "nvidia_l40s", 48},
    {"gpu-h100x1-80gb", "H100 GPU Droplet - 1X", 20, 245760, 720, 15, 3.39, "nyc2 tor1 ams3", 1,
     "nvidia_h100", 80},
    {"gpu-h100x1-80gb-spot", "H100 GPU Droplet - 1X - Spot", 20, 245760, 720, 15, 1.53, "nyc2", 1,
     "nvidia_h100", 80},
    {"gpu-h100x8-640gb", "H100 GPU Droplet - 8X", 160, 1966080, 2046, 60, 23.92, "nyc2 tor1 ams3",
     8, "nvidia_h100", 640},
    {"gpu-h200x1-141gb", "H200 GPU Droplet - 1X", 24, 245760, 720, 15, 3.44, "nyc2", 1,
     "nvidia_h200", 141},
    {"gpu-h200x8-1128gb", "H200 GPU Droplet - 8X", 192, 1966080, 2046, 60, 27.52, "nyc2", 8,
     "nvidia_h200", 1128},
    {"gpu-mi300x1-192gb", "MI300X GPU Droplet - 1X", 20, 245760, 720, 15, 1.99, "nyc2", 1,
     "amd_mi300x", 192},
    {"gpu-mi300x8-1536gb", "MI300X GPU Droplet - 8X", 160, 1966080, 2046, 60, 15.92, "", 8,
     "amd_mi300x", 1536},
    {"gpu-b300x1-288gb-spot", "B300 GPU Droplet - 1X - Spot", 24, 245760, 720, 15, 3.95, "ric1", 1,
     "nvidia_b300", 288},
};

}  // namespace

std::span<const DropletSize> droplet_sizes() { return kSizes; }

const std::vector<DropletRegion>& droplet_regions() {
  static const auto& all = *new std::vector<DropletRegion>{
      {"nyc1", "New York 1"},  {"nyc2", "New York 2"},  {"nyc3", "New York 3"},
      {"ams3", "Amsterdam 3"}, {"fra1", "Frankfurt 1"}, {"sfo3", "San Francisco 3"},
      {"tor1", "Toronto 1"},   {"ric1", "Richmond 1"},
  };
  return all;
}

const std::vector<DropletImage>& droplet_images() {
  static const auto& all = *new std::vector<DropletImage>{
      {155133621, "ubuntu-22-04-x64", "22.04 (LTS) x64", "Ubuntu"},
      {195932981, "ubuntu-24-04-x64", "24.04 (LTS) x64", "Ubuntu"},
      {185556912, "debian-12-x64", "12 x64", "Debian"},
      {188568450, "gpu-h100x1-base", "NVIDIA AI/ML Ready", "Ubuntu", "nvidia", 1},
      {188568464, "gpu-h100x8-base", "NVIDIA AI/ML Ready with NVLink", "Ubuntu", "nvidia", 8},
      {188571990, "gpu-amd-base", "AMD AI/ML Ready", "Ubuntu", "amd"},
  };
  return all;
}

std::vector<std::string> DropletSize::regions() const {
  std::vector<std::string> out;
  std::string_view rest = places;
  while (!rest.empty()) {
    out.emplace_back(rest.substr(0, rest.find(' ')));
    rest.remove_prefix(std::min(rest.size(), out.back().size() + 1));
  }
  return out;
}

Json size_json(const DropletSize& size) {
  Json out{
      {"slug", size.slug},
      {"description", size.description},
      {"vcpus", size.vcpus},
      {"memory", size.memory_mb},
      {"disk", size.disk_gb},
      {"disk_info", {{{"type", "local"}, {"size", {{"amount", size.disk_gb}, {"unit", "gib"}}}}}},
      {"transfer", size.transfer},
      {"price_hourly", size.hourly},
      {"price_monthly", size.hourly * 672},
      {"regions", size.regions()},
      {"available", !size.places.empty()}};
  if (size.gpus > 0) {
    out["gpu_info"] = {{"count", size.gpus},
                       {"model", size.gpu},
                       {"vram", {{"amount", size.gpu_memory_gb}, {"unit", "gib"}}}};
  }
  return out;
}

Json region_json(const DropletRegion& region) {
  Json sizes = Json::array();
  for (const DropletSize& size : droplet_sizes()) {
    if (std::ranges::count(size.regions(), region.slug) > 0) sizes.push_back(size.slug);
  }
  return {{"slug", region.slug},
          {"name", region.name},
          {"features", {"backups", "ipv6", "metadata", "install_agent", "storage"}},
          {"available", true},
          {"sizes", sizes}};
}

Json image_json(const DropletImage& image) {
  Json regions = Json::array();
  for (const DropletRegion& region : droplet_regions()) regions.push_back(region.slug);
  return {{"id", image.id},
          {"name", image.name},
          {"distribution", image.distribution},
          {"slug", image.slug},
          {"public", true},
          {"regions", regions},
          {"created_at", "2025-10-01T10:00:00Z"},
          {"min_disk_size", 7},
          {"type", "base"},
          {"size_gigabytes", 2.4},
          {"description", image.name},
          {"tags", Json::array()},
          {"status", "available"}};
}

const DropletSize* find_size(const std::string& slug) {
  for (const DropletSize& size : droplet_sizes()) {
    if (size.slug == slug) return &size;
  }
  return nullptr;
}

const DropletRegion* find_region(const std::string& slug) {
  for (const DropletRegion& region : droplet_regions()) {
    if (region.slug == slug) return &region;
  }
  return nullptr;
}

const DropletImage* find_image(const Json& id_or_slug) {
  for (const DropletImage& image : droplet_images()) {
    if (id_or_slug == image.slug || id_or_slug == image.id) return &image;
  }
  return nullptr;
}

}  // namespace skyward::doubles
