#include "skyward/provider/aws/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "skyward/provider/aws/list_prices.h"
#include "skyward/provider/aws/partition.h"
#include "skyward/provider/json_read.h"
#include "skyward/provider/marks.h"

namespace skyward::provider::aws {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::int64_t kDay_s = 86400;
constexpr std::int64_t kSpotPrices_s = 900;
// A price list that did not answer is not waited for again at once.
constexpr std::int64_t kNoPrices_s = 300;
// How long the pages of a list that was cut off are kept, for the next pool to go on from.
constexpr std::int64_t kBegun_s = 3600;
// Prices are good to have; nobody waits longer for them, unless the pool has a limit.
constexpr Duration kPriceTime = 20s;
constexpr Duration kNeededPriceTime = 60s;
constexpr std::size_t kTypesAtOnce = 100;
// A list that never ends is a fault of the other side.
constexpr int kMostPages = 1000;

constexpr std::array kFamilies = {PriceFamily::virtual_machine, PriceFamily::bare_metal};

// How far the price list has been read.
struct PriceReading {
  std::map<std::string, double> prices{};
  std::size_t family = 0;  // in kFamilies; behind them: all is read
  std::string next{};      // of the page before
  int pages = 0;           // of this reading
};

std::map<std::string, double> prices_of_text(const std::string& text) {
  std::map<std::string, double> out;
  const json kept = read_json(text);
  if (!kept.is_object()) return out;
  for (const auto& [type, price] : kept.items()) {
    if (const auto dollars = json_number(price)) out[type] = *dollars;
  }
  return out;
}

PriceReading reading_of_text(const std::string& text) {
  const json kept = read_json(text);
  const std::size_t family = json_text(kept, "family") == "1" ? 1 : 0;
  return {.prices = prices_of_text(json_text(kept, "prices")),
          .family = family,
          .next = json_text(kept, "next")};
}

std::string to_text(const PriceReading& reading) {
  return json_line({{"prices", json_line(reading.prices)},
                    {"family", std::to_string(reading.family)},
                    {"next", reading.next}});
}

// The account's, where the source of the credentials says it; else the key's.
std::string digits_of_account(const Credentials& credentials) {
  return owner_digits(credentials.account_id.empty() ? credentials.keys.access_key_id
                                                     : credentials.account_id);
}

// Goes on to the end. Where a type has two prices, the higher one counts: it is a bound.
ApiResult<void> read_on(Client& client, PriceReading& reading, Time deadline) {
  Ec2Api api(client);
  while (reading.family < kFamilies.size()) {
    const auto page = api.price_page(kFamilies[reading.family], reading.next, deadline);
    const bool begun_before = reading.pages == 0 && !reading.next.empty();
    if (!page && begun_before && page.error().kind() == ErrorKind::invalid) {
      reading = {.prices = std::move(reading.prices)};  // the list has forgotten where we were
      continue;
    }
    if (!page) return std::unexpected(page.error());
    for (const auto& [type, price] : page->prices) {
      reading.prices[type] = std::max(reading.prices[type], price);
    }
    reading.next = page->next;
    if (reading.next.empty() || ++reading.pages >= kMostPages) ++reading.family;
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

void Catalogue::add_list_prices(Prices& prices, bool needed, Time deadline) {
  if (!partition_of(client_.region()).in_dollars) {
    prices.trouble = fmt::format("Amazon's prices in {} are not in dollars", client_.region());
    return;
  }
  prices.on_demand = prices_of_text(facts_.read("prices"));
  if (!prices.on_demand.empty()) return;
  PriceReading reading = reading_of_text(facts_.read("prices-begun"));
  prices.trouble = facts_.read("no-prices");
  if (prices.trouble.empty() || needed) {
    const Duration patience = needed ? kNeededPriceTime : kPriceTime;
    const auto read =
        read_on(client_, reading, std::min(deadline, client_.world().now() + patience));
    prices.trouble.clear();
    if (!read) {
      prices.trouble =
          to_error(read.error(), fmt::format("the price list of {} was not read to its end in {} s",
                                             client_.region(), patience / 1s))
              .message;
    }
    if (read && !reading.prices.empty()) facts_.keep("prices", kDay_s, json_line(reading.prices));
    if (!read && reading.pages > 0) facts_.keep("prices-begun", kBegun_s, to_text(reading));
    if (!read && reading.pages == 0) facts_.keep("no-prices", kNoPrices_s, prices.trouble);
  }
  prices.on_demand = std::move(reading.prices);
  const bool has_table = client_.region() == kListPricesRegion && !prices.trouble.empty();
  if (has_table) prices.on_demand.insert(list_prices().begin(), list_prices().end());
}

Result<void> Catalogue::add_spot_prices(const std::vector<std::string>& types, Prices& prices,
                                        Time deadline) {
  if (!partition_of(client_.region()).in_dollars) return {};
  // Zones of one name are not the same in every account.
  const auto credentials = client_.credentials(deadline);
  const std::string account = credentials ? digits_of_account(*credentials) : "";
  json kept = read_json(facts_.read("spot"));
  if (json_text(kept, "account") != account) kept = {};
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
    facts_.keep("spot", kSpotPrices_s,
                json_line({{"account", account}, {"types", types}, {"rows", rows}}));
  }
  for (const json* row : json_items(rows)) {
    if (!row->is_array() || row->size() != 3) continue;
    const double dollars = json_number((*row)[2]).value_or(0);
    if (dollars > 0) prices.spot[{json_text((*row)[0]), json_text((*row)[1])}] = dollars;
  }
  return {};
}

}  // namespace skyward::provider::aws
