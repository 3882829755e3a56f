#include "skyward/provider/runpod/pod_offers.h"

#include <fmt/format.h>

#include <algorithm>

#include "skyward/base/text.h"
#include "skyward/provider/choosing.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider::runpod {

namespace {

// The most that a pod without GPUs may have.
constexpr int kMostCpuDisk_gb = 20;
// What RunPod's first REST API guaranteed for each GPU unless told otherwise; the second says
// nothing.
constexpr int kLeastCpus = 2;
constexpr int kLeastMemory_gb = 8;

bool is_allowed(const PodLimits& limits, const PodCatalogue& catalogue, const std::string& place) {
  const bool wanted =
      limits.places.empty() || std::ranges::find(limits.places, place) != limits.places.end();
  if (!wanted || !limits.networked) return wanted;
  const auto found = std::ranges::find(catalogue.data_centers, place, &DataCenter::id);
  return found != catalogue.data_centers.end() && found->networked;
}

// Empty if there are no such pods.
std::optional<GpuMarket> market_of(const PodCatalogue& catalogue, const GpuKind& kind) {
  if (!catalogue.market) {
    return GpuMarket{.vcpus = kLeastCpus * catalogue.count,
                     .memory_gb = kLeastMemory_gb * static_cast<double>(catalogue.count)};
  }
  const auto found = std::ranges::find(*catalogue.market, kind.id, &GpuMarket::id);
  return found == catalogue.market->end() ? std::nullopt : std::optional(*found);
}

}  // namespace

PodLimits limits_of(const ProviderSpec& spec) {
  PodLimits out;
  if (spec.setting("cloud_type") == "community") out.tier = Tier::community;
  out.places = items_of(spec.setting("data_center_ids"), ',');
  if (out.places == std::vector<std::string>{"global"}) out.places.clear();
  out.networked = spec.setting("global_networking") == "true";
  const std::string clock = spec.setting("cpu_clock");
  out.cpu = "cpu" + (clock.empty() ? "3c" : clock);
  out.least_cuda = number_setting(spec, "min_cuda");
  out.bid_multiplier = std::max(1.0, number_setting(spec, "bid_multiplier"));
  out.start_limit = from_seconds(number_setting(spec, "provision_timeout") +
                                 number_setting(spec, "instance_timeout"));
  out.disk_gb = static_cast<int>(number_setting(spec, "container_disk_gb"));
  if (spec.setting("network_volume").empty()) {
    out.volume_gb = static_cast<int>(number_setting(spec, "volume_gb"));
  }
  return out;
}

void PodOffers::add(const PodCatalogue& catalogue, const PodLimits& limits) {
  add_gpus(catalogue, limits);
  add_cpus(catalogue, limits);
}

void PodOffers::add_gpus(const PodCatalogue& catalogue, const PodLimits& limits) {
  const bool secure = limits.tier == Tier::secure;
  for (const GpuKind& kind : catalogue.gpus) {
    const double price = secure ? kind.secure : kind.community;
    const int most = secure ? kind.most_secure : kind.most_community;
    const std::optional<GpuMarket> market = market_of(catalogue, kind);
    const bool sold = kind.available && price > 0 && catalogue.count <= most && market;
    if (!sold || (limits.networked && kind.manufacturer != "NVIDIA")) continue;
    const std::string type = fmt::format("{}x {}", catalogue.count, kind.name);
    const double disks = disk_price(limits.disk_gb + limits.volume_gb);
    Offer offer{.instance_type = type,
                .cpus = market->vcpus,
                .memory_gb = market->memory_gb,
                .accelerator = accelerator_in(kind.name),
                .accelerator_form = form_factor_in(kind.name),
                .accelerator_count = static_cast<double>(catalogue.count),
                .accelerator_memory_gb = kind.memory_gb,
                .architecture = "x86_64",
                .price_on_demand = price * catalogue.count + disks};
    // A bid names each version that will do.
    const bool takes_bids = limits.least_cuda == 0 || !kind.cuda.empty();
    if (market->least_bid && takes_bids) {
      offer.price_spot = *market->least_bid * catalogue.count * limits.bid_multiplier + disks;
    }
    types[type] = {.request = {.gpu = kind.id,
                               .count = catalogue.count,
                               .tier = limits.tier,
                               .disk_gb = limits.disk_gb,
                               .volume_gb = limits.volume_gb,
                               .vcpus = market->vcpus,
                               .memory_gb = market->memory_gb,
                               .least_cuda = limits.least_cuda,
                               .cuda = kind.cuda},
                   .least_bid = market->least_bid};
    for (const std::string& place : secure ? kind.places : std::vector<std::string>{kCommunity}) {
      if (secure && !is_allowed(limits, catalogue, place)) continue;
      offer.region = place;
      offers.push_back(offer);
    }
  }
}

// Pods without GPUs are in data centres alone, and sold on demand.
void PodOffers::add_cpus(const PodCatalogue& catalogue, const PodLimits& limits) {
  if (limits.tier != Tier::secure || limits.networked) return;
  const int disk_gb = std::min(limits.disk_gb, kMostCpuDisk_gb);
  for (const CpuKind& kind : catalogue.cpus) {
    if (kind.id != limits.cpu || kind.price <= 0) continue;
    for (int count = std::max(kind.least, 2); count <= std::min(kind.most, 1024); count *= 2) {
      const double memory_gb = kind.memory_gb * count;
      const std::string type = fmt::format("{}-{}-{:g}", kind.id, count, memory_gb);
      types[type] = {.request = {.cpu = kind.id, .count = count, .disk_gb = disk_gb},
                     .least_bid = std::nullopt};
      for (const std::string& place : kind.places) {
        if (!is_allowed(limits, catalogue, place)) continue;
        offers.push_back({.instance_type = type,
                          .region = place,
                          .cpus = count,
                          .memory_gb = memory_gb,
                          .architecture = "x86_64",
                          .price_on_demand = kind.price * count + disk_price(disk_gb)});
      }
    }
  }
}

}  // namespace skyward::provider::runpod
