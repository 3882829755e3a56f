#include "skyward/provider/aws/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "skyward/provider/aws/list_prices.h"
#include "skyward/provider/json_read.h"

namespace skyward::provider::aws {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::int64_t kDay_s = 86400;
constexpr std::int64_t kSpotPrices_s = 900;
// A price list that did not answer is not waited for again at once.
constexpr std::int64_t kNoPrices_s = 300;
// Prices are good to have; nobody waits longer for them.
constexpr Duration kPriceTime = 20s;
constexpr std::size_t kTypesAtOnce = 100;
// A list that never ends is a fault of the other side.
constexpr int kMostPages = 1000;

// Adds what it has read. Where a type has two prices, the higher one counts: it is a bound.
ApiResult<void> read_price_list(Client& client, std::map<std::string, double>& prices,
                                Time deadline) {
  Ec2Api api(client);
  for (const PriceFamily family : {PriceFamily::virtual_machine, PriceFamily::bare_metal}) {
    std::string next;
    int pages = 0;
    do {
      const auto page = api.price_page(family, next, deadline);
      if (!page) return std::unexpected(page.error());
      for (const auto& [type, price] : page->prices) {
        prices[type] = std::max(prices[type], price);
      }
      next = page->next;
    } while (!next.empty() && ++pages < kMostPages);
  }
  return {};
}

}  // namespace

std::string to_text(const std::vector<InstanceType>& types) {
  json out = json::array();
  for (const InstanceType& type : types) {
    json devices = json::array();
    for (const Device& device : type.devices) {
      devices.push_back({device.name, device.manufacturer, device.count, device.memory_mib});
    }
    out.push_back({type.name, type.cpus, type.memory_mib, type.architectures, devices, type.spot,
                   type.on_demand, type.current_generation, type.bare_metal, type.burstable});
  }
  return json_line(out);
}

std::vector<InstanceType> types_of_text(const std::string& text) {
  const auto is_set = [](const json& row, std::size_t i) { return json_item(row, i) == true; };
  std::vector<InstanceType> out;
  const json rows = read_json(text);
  for (const json* row : json_items(rows)) {
    if (!row->is_array() || row->size() != 10) return {};  // another version's file
    InstanceType type{
        .name = json_text(json_item(*row, 0)),
        .cpus = static_cast<int>(std::clamp(json_number(json_item(*row, 1)).value_or(0), 0.0, 1e6)),
        .memory_mib = json_number(json_item(*row, 2)).value_or(0)};
    for (const json* one : json_items(json_item(*row, 3)))
      type.architectures.push_back(json_text(*one));
    for (const json* one : json_items(json_item(*row, 4))) {
      type.devices.push_back({.name = json_text(json_item(*one, 0)),
                              .manufacturer = json_text(json_item(*one, 1)),
                              .count = json_number(json_item(*one, 2)).value_or(0),
                              .memory_mib = json_number(json_item(*one, 3)).value_or(0)});
    }
    type.spot = is_set(*row, 5);
    type.on_demand = is_set(*row, 6);
    type.current_generation = is_set(*row, 7);
    type.bare_metal = is_set(*row, 8);
    type.burstable = is_set(*row, 9);
    if (type.name.empty()) return {};
    out.push_back(std::move(type));
  }
  return out;
}

Catalogue::Catalogue(Client& client)
    : client_(client),
      facts_(client.world(), "aws", client.region(),
             find_endpoint(client.world(), client.configuration(), "ec2", client.region())
                 .value_or("")) {}

Result<std::vector<InstanceType>> Catalogue::types(Time deadline) {
  std::vector<InstanceType> types = types_of_text(facts_.read("types"));
  if (!types.empty()) return types;
  auto told = Ec2Api(client_).describe_instance_types(deadline);
  if (!told) {
    return std::unexpected(
        to_error(told.error(), fmt::format("EC2 DescribeInstanceTypes in {}", client_.region())));
  }
  facts_.keep("types", kDay_s, to_text(*told));
  return *std::move(told);
}

std::map<std::string, double> Catalogue::prices(Time deadline) {
  std::map<std::string, double> out;
  const json kept = read_json(facts_.read("prices"));
  if (kept.is_object() && !kept.empty()) {
    for (const auto& [type, price] : kept.items()) {
      if (const auto dollars = json_number(price)) out[type] = *dollars;
    }
    return out;
  }
  if (facts_.read("no-prices").empty()) {
    const Time until = std::min(deadline, client_.world().now() + kPriceTime);
    const auto read = read_price_list(client_, out, until);
    if (read) {
      if (!out.empty()) facts_.keep("prices", kDay_s, json_line(out));
      return out;
    }
    out.clear();
    const ApiError& why = read.error();
    facts_.keep("no-prices", kNoPrices_s, why.code.empty() ? why.message : why.code);
  }
  return client_.region() == kListPricesRegion ? list_prices() : out;
}

Result<void> Catalogue::add_spot_prices(const std::vector<std::string>& types, Prices& prices,
                                        Time deadline) {
  const json kept = read_json(facts_.read("spot"));
  std::set<std::string> known;
  for (const json* type : json_items(kept, "types")) known.insert(json_text(*type));
  json rows = json_at(kept, "rows");
  std::vector<std::string> unknown;
  std::ranges::copy_if(types, std::back_inserter(unknown),
                       [&](const std::string& type) { return !known.contains(type); });
  if (!unknown.empty()) {
    known.clear();
    rows = json::array();
    for (std::size_t begin = 0; begin < types.size(); begin += kTypesAtOnce) {
      const std::vector<std::string> some(types.begin() + static_cast<std::ptrdiff_t>(begin),
                                          types.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                              types.size(), begin + kTypesAtOnce)));
      const auto told = Ec2Api(client_).describe_spot_prices(some, deadline);
      if (!told) {
        return std::unexpected(to_error(
            told.error(), fmt::format("EC2 DescribeSpotPriceHistory in {}", client_.region())));
      }
      for (const SpotPrice& one : *told) rows.push_back({one.type, one.zone, one.dollars});
    }
    facts_.keep("spot", kSpotPrices_s, json_line({{"types", types}, {"rows", rows}}));
  }
  for (const json* row : json_items(rows)) {
    if (!row->is_array() || row->size() != 3) continue;
    const double dollars = json_number((*row)[2]).value_or(0);
    if (dollars > 0) prices.spot[{json_text((*row)[0]), json_text((*row)[1])}] = dollars;
  }
  return {};
}

}  // namespace skyward::provider::aws
