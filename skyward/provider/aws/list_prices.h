#pragma once

// EC2's prices for when the price list is unavailable: a table that ships with Skyward. It covers
// accelerators and the common families in one region, as of 2026-07-20. Other prices are
// unknown.

#include <map>
#include <string>
#include <string_view>

namespace skyward::provider::aws {

inline constexpr std::string_view kListPricesRegion = "us-east-1";

// On-demand prices by type, in dollars per hour.
const std::map<std::string, double>& list_prices();

}  // namespace skyward::provider::aws
