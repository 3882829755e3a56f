#pragma once

// What Amazon sells, as offers, and the choice among them. Pure: no question to Amazon here.

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

// Dollars an hour.
struct Prices {
  std::map<std::string, double> on_demand{};                     // by type
  std::map<std::pair<std::string, std::string>, double> spot{};  // by type and zone

  // The least of all zones.
  std::optional<double> least_spot(const std::string& type) const;
};

// Whether a pool may be put on machines of a type: its market, its kind, its architecture. Says
// nothing of size and devices.
bool may_use(const InstanceType& type, const PoolSpec& spec);

// The types that may be used, as offers, in no order.
std::vector<Offer> to_offers(std::span<const InstanceType> types, const Prices& prices,
                             const std::string& region, const PoolSpec& spec);

// Whether the machine or the accelerator that a pool names is among the types at all. Where it is,
// another region has no larger ones.
bool is_known(std::span<const InstanceType> types, const PoolSpec& spec);

}  // namespace skyward::provider::aws
