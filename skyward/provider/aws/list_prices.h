#pragma once

// What EC2's machines cost where the price list cannot be asked: a table that ships with Skyward.
// It covers accelerators and the common families, in one region, as of kListPricesDate; a price
// that is not in it is not known.

#include <map>
#include <string>
#include <string_view>

namespace skyward::provider::aws {

inline constexpr std::string_view kListPricesRegion = "us-east-1";
inline constexpr std::string_view kListPricesDate = "2026-07-20";

// Dollars an hour on demand, by type.
const std::map<std::string, double>& list_prices();

}  // namespace skyward::provider::aws
