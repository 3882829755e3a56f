#pragma once

// Amazon's instance types as offers, and the choice among them. Pure.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::aws {

// In dollars per hour, as Amazon tells them.
struct Prices {
  std::map<std::string, double> on_demand{};                     // by type
  std::map<std::pair<std::string, std::string>, double> spot{};  // by type and zone
  std::string trouble{};  // why there may be on-demand prices that are not known

  // The lowest of all zones.
  std::optional<double> least_spot(const std::string& type) const;
};

// Whether the pool's machines have private addresses alone, and are reached there.
bool is_private(const ProviderSpec& settings);
// Whether the pool's machines get public IPv4 addresses. Session Manager needs none where the
// user's subnet leads to it; Amazon's default subnets lead nowhere without one.
bool has_addresses(const ProviderSpec& settings);
// Dollars an hour for a machine's address. It costs the same in all regions, used or not
// (aws.amazon.com/vpc/pricing, since February 2024); Amazon's prices of machines are without it.
double address_price(const ProviderSpec& settings);

// Whether a type suits a pool by market, kind and architecture. Size and devices are not checked.
bool may_use(const InstanceType& type, const PoolSpec& spec);

// The suitable types as offers, with the prices of their addresses, in no particular order.
std::vector<Offer> to_offers(std::span<const InstanceType> types, const Prices& prices,
                             const std::string& region, const PoolSpec& spec);

// Whether the types include the machine or accelerator that a pool names. If they do, no other
// region has larger ones.
bool is_known(std::span<const InstanceType> types, const PoolSpec& spec);

}  // namespace skyward::provider::aws
