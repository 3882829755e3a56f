#pragma once

// What RunPod has on sale, as offers, and what each of them asks for. Pure.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skyward/provider/runpod/pods.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::runpod {

// Which machines the settings allow.
struct PodLimits {
  Tier tier = Tier::secure;
  std::vector<std::string> places{};  // data centres; empty: all
  bool networked = false;             // only where nodes reach each other
  std::string cpu{};                  // "cpu3c": the kind of pods without GPUs
  double bid_multiplier = 1;
  Duration start_limit{};  // until a pod runs
  double least_cuda = 0;   // that a host's driver supports; 0: any
  int disk_gb = 0;
  int volume_gb = 0;  // of a second disk, for pods with GPUs; 0: none
};
PodLimits limits_of(const ProviderSpec& spec);

// What was read of the catalogue, for pods with `count` GPUs.
struct PodCatalogue {
  int count = 1;
  std::vector<GpuKind> gpus{};
  std::optional<std::vector<GpuMarket>> market{};  // empty: unknown, and pods are sold on demand
  std::vector<CpuKind> cpus{};
  std::vector<DataCenter> data_centers{};
};

struct PodOffers {
  std::vector<Offer> offers{};
  std::map<std::string, PodType> types{};  // by Offer::instance_type

  void add(const PodCatalogue& catalogue, const PodLimits& limits);

 private:
  void add_gpus(const PodCatalogue& catalogue, const PodLimits& limits);
  void add_cpus(const PodCatalogue& catalogue, const PodLimits& limits);
};

}  // namespace skyward::provider::runpod
