#include "skyward/provider/aws/market.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "skyward/provider/choosing.h"

namespace skyward::provider::aws {

namespace {

constexpr double kMibPerGib = 1024;

// Amazon's names of devices where the catalogue's are others.
std::string device_model(const std::string& name) {
  if (name == "Trainium" || name == "Inferentia") return name + "1";
  if (name == "RTX PRO Server 6000") return "RTXPRO6000";
  return name;
}

constexpr double kAddressPrice = 0.005;
constexpr double kUnknownBaseline = 0.2;

// A burstable machine's share, by the EC2 User Guide, "Key concepts for burstable performance
// instances". With standard credits, most have no more from the start.
double baseline_of(const InstanceType& type) {
  constexpr std::array<std::pair<std::string_view, double>, 9> kBaselines = {{
      {"t2.xlarge", 0.225},
      {"t2.2xlarge", 0.17},
      {".nano", 0.05},
      {".micro", 0.1},
      {".small", 0.2},
      {".medium", 0.2},
      {".large", 0.3},
      {".xlarge", 0.4},
      {".2xlarge", 0.4},
  }};
  if (!type.burstable) return 1;
  for (const auto& [name, share] : kBaselines) {
    if (type.name.ends_with(name)) return share;
  }
  return kUnknownBaseline;
}

bool is_flag_set(const PoolSpec& spec, const char* name) {
  return spec.provider.setting(name) == "true";
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

// That of the machines that a pool would get of a type; empty: it gets none. A pool that names a
// type takes it as it is.
std::optional<std::string> architecture_of(const InstanceType& type, const PoolSpec& spec) {
  const auto is_one = [&](std::string_view name) {
    return std::ranges::find(type.architectures, name) != type.architectures.end();
  };
  const std::string wanted =
      spec.architecture.empty() ? std::string(own_architecture()) : spec.architecture;
  if (is_one(wanted)) return wanted;
  if (spec.architecture.empty() && spec.machine == type.name) {
    for (const auto& [name, agent] : spec.other_agents) {
      if (is_one(name)) return name;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> Prices::least_spot(const std::string& type) const {
  std::optional<double> least;
  for (auto at = spot.lower_bound({type, ""}); at != spot.end() && at->first.first == type; ++at) {
    least = std::min(least.value_or(at->second), at->second);
  }
  return least;
}

bool is_private(const ProviderSpec& settings) {
  return settings.setting("private_addresses") == "true";
}

bool has_addresses(const ProviderSpec& settings) {
  if (is_private(settings)) return false;
  return settings.setting("use_ssm") != "true" || settings.setting("subnet_id").empty();
}

double address_price(const ProviderSpec& settings) {
  return has_addresses(settings) ? kAddressPrice : 0;
}

bool may_use(const InstanceType& type, const PoolSpec& spec) {
  if (!architecture_of(type, spec)) return false;
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
  const double address = address_price(spec.provider);
  std::vector<Offer> out;
  for (const InstanceType& type : types) {
    if (!may_use(type, spec)) continue;
    Offer offer{.instance_type = type.name,
                .region = region,
                .cpus = type.cpus,
                .memory_gb = type.memory_mib / kMibPerGib};
    offer.architecture = *architecture_of(type, spec);
    offer.baseline = baseline_of(type);
    add_devices(type, offer);
    const auto price = prices.on_demand.find(type.name);
    if (price != prices.on_demand.end()) offer.price_on_demand = price->second + address;
    const auto spot = type.spot ? prices.least_spot(type.name) : std::nullopt;
    if (spot) offer.price_spot = *spot + address;
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

}  // namespace skyward::provider::aws
