#include "skyward/provider/aws/market.h"

#include <fmt/format.h>

#include <algorithm>

namespace skyward::provider::aws {

namespace {

constexpr double kMibPerGib = 1024;
// What Python and a frameworkless pool live on; Amazon's smallest machines have less.
constexpr double kLeastCpus = 2;
constexpr std::int64_t kLeastMemory_mb = 2048;
// Other types than the best one are tried while they cost at most so much more.
constexpr std::size_t kMostTypes = 5;
constexpr double kMostTimesThePrice = 1.5;

// Amazon's names of devices where the catalogue's are others.
std::string device_model(const std::string& name) {
  if (name == "Trainium" || name == "Inferentia") return name + "1";
  if (name == "RTX PRO Server 6000") return "RTXPRO6000";
  return name;
}

bool is_flag_set(const PoolSpec& spec, const char* name) {
  const auto found = spec.provider.settings.find(name);
  return found != spec.provider.settings.end() && found->second == "true";
}

std::optional<double> market_price(const Offer& offer, const PoolSpec& spec) {
  if (spec.spot.kind != SpotKind::never && offer.price_spot) return offer.price_spot;
  return offer.price_on_demand;
}

void add_devices(const InstanceType& type, Offer& offer) {
  if (type.devices.empty()) return;
  const Device& device = type.devices.front();
  offer.accelerator = device_model(device.name);
  for (const Device& one : type.devices) offer.accelerator_count += one.count;
  // A slice tells its own share of the memory.
  const double whole = device.count > 0 && device.count < 1 ? device.count : 1;
  offer.accelerator_memory_gb = device.memory_mib / whole / kMibPerGib;
}

}  // namespace

std::optional<double> Prices::least_spot(const std::string& type) const {
  std::optional<double> least;
  for (auto at = spot.lower_bound({type, ""}); at != spot.end() && at->first.first == type; ++at) {
    least = std::min(least.value_or(at->second), at->second);
  }
  return least;
}

std::string_view agent_architecture() {
#if defined(__aarch64__)
  return "arm64";
#else
  return "x86_64";
#endif
}

bool may_use(const InstanceType& type, const PoolSpec& spec) {
  const std::string architecture =
      spec.architecture.empty() ? std::string(agent_architecture()) : spec.architecture;
  if (std::ranges::find(type.architectures, architecture) == type.architectures.end()) return false;
  if (!spec.machine.empty()) return type.name == spec.machine;
  if (spec.spot.kind == SpotKind::never ? !type.on_demand : !type.spot && !type.on_demand) {
    return false;
  }
  if (spec.spot.kind == SpotKind::always && !type.spot) return false;
  if (type.bare_metal) return false;
  if (type.burstable && is_flag_set(spec, "exclude_burstable")) return false;
  return type.current_generation || !type.devices.empty();
}

std::vector<Offer> to_offers(std::span<const InstanceType> types, const Prices& prices,
                             const std::string& region, const PoolSpec& spec) {
  std::vector<Offer> out;
  for (const InstanceType& type : types) {
    if (!may_use(type, spec)) continue;
    Offer offer{.instance_type = type.name,
                .region = region,
                .cpus = type.cpus,
                .memory_gb = type.memory_mib / kMibPerGib};
    offer.architecture =
        spec.architecture.empty() ? std::string(agent_architecture()) : spec.architecture;
    add_devices(type, offer);
    const auto price = prices.on_demand.find(type.name);
    if (price != prices.on_demand.end()) offer.price_on_demand = price->second;
    if (type.spot) offer.price_spot = prices.least_spot(type.name);
    out.push_back(std::move(offer));
  }
  return out;
}

bool is_known(std::span<const InstanceType> types, const PoolSpec& spec) {
  return std::ranges::any_of(types, [&](const InstanceType& type) {
    if (!spec.machine.empty()) return type.name == spec.machine;
    if (!spec.accelerator) return true;
    Offer offer;
    add_devices(type, offer);
    return !offer.accelerator.empty() &&
           matches(*spec.accelerator, offer.accelerator, offer.accelerator_memory_gb);
  });
}

OfferRequest request_of(const PoolSpec& spec) {
  OfferRequest request;
  request.prefer_spot = spec.spot.kind != SpotKind::never;
  if (!spec.machine.empty()) {  // whatever it has
    request.cpus = 0;
    request.memory_mb = 0;
    return request;
  }
  const int workers = workers_per_node(spec);
  request.accelerator = spec.accelerator;
  request.cpus = spec.cpus > 0 ? spec.cpus * workers : kLeastCpus;
  request.memory_mb = spec.memory_mb > 0 ? spec.memory_mb * workers : kLeastMemory_mb;
  request.architecture = spec.architecture;
  return request;
}

Result<std::vector<Offer>> fitting_offers(std::span<const Offer> offers, const PoolSpec& spec) {
  if (!spec.machine.empty() && offers.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("machine=\"{}\" is not offered for {}", spec.machine,
                            spec.architecture.empty() ? agent_architecture() : spec.architecture),
                "'skyward offers list' shows the types that are");
  }
  const auto ranked = rank_offers(offers, request_of(spec));
  if (!ranked) return fail(ranked);
  std::vector<Offer> out;
  out.reserve(ranked->size());
  for (const std::size_t i : *ranked) out.push_back(offers[i]);
  return out;
}

std::vector<Offer> with_alternatives(std::span<const Offer> ranked, const Offer& offer,
                                     const PoolSpec& spec) {
  std::vector<Offer> out = {offer};
  const auto first = std::ranges::find(ranked, offer.instance_type, &Offer::instance_type);
  const std::optional<double> price = market_price(offer, spec);
  if (first == ranked.end() || !price || !spec.machine.empty()) return out;
  for (auto at = first + 1; at != ranked.end() && out.size() < kMostTypes; ++at) {
    const std::optional<double> other = market_price(*at, spec);
    if (!other || *other > *price * kMostTimesThePrice) break;
    if (spec.max_hourly_cost && *other * spec.nodes > *spec.max_hourly_cost) break;
    if (at->accelerator != offer.accelerator) continue;
    out.push_back(*at);
  }
  return out;
}

}  // namespace skyward::provider::aws
