// What is offered at Vast.ai, and how it is searched.

#include <algorithm>
#include <cmath>

#include "doubles/vast.h"

namespace skyward::doubles {
namespace {

struct Card {
  const char* name;
  int memory_mb;
  double hourly;
  int compute_cap;
};

constexpr Card kCards[] = {
    {"H100 SXM", 81559, 2.1, 900},   {"H100 NVL", 95830, 1.9, 900}, {"H200", 143771, 2.6, 900},
    {"A100 SXM4", 81920, 0.9, 800},  {"L40S", 46068, 0.6, 890},     {"RTX A6000", 49140, 0.4, 860},
    {"RTX 5090", 32607, 0.45, 1200}, {"RTX 4090", 24564, 0.3, 890}, {"RTX 3090", 24576, 0.15, 860},
};
constexpr const char* kCountries[] = {"Texas, US", "Quebec, CA", "Norway, NO", "Taiwan, TW"};
constexpr int kEach = 4;           // machines of a card in a place
constexpr int kMany = 32;          // ... of some cards in one country
constexpr std::size_t kPage = 64;  // the most that one search tells, whatever its limit
constexpr int kBlankAfter = 13;    // of so many places one has a blank at its end
// What Vast::priced() sets.
constexpr std::string_view kPriced[] = {"dph_base", "dph_total", "is_bid", "rentable", "rented"};

int compare(const Json& left, const Json& right) {
  if (left == right) return 0;
  return left < right ? -1 : 1;
}

// Numbers may come as text, as from the vendor's own client.
Json as_its_kind(const Json& wanted, const Json& value) {
  if (wanted.is_array()) {
    Json out = Json::array();
    for (const Json& one : wanted) out.push_back(as_its_kind(one, value));
    return out;
  }
  if (!value.is_number() || !wanted.is_string()) return wanted;
  const Json number = Json::parse(wanted.get<std::string>(), nullptr, false);
  return number.is_number() ? number : wanted;
}

bool is_among(const Json& value, const Json& all) {
  return all.is_array() && std::ranges::find(all, value) != all.end();
}

bool holds(const Json& value, const std::string& how, const Json& wanted,
           std::vector<std::string>& wrong) {
  if (how == "eq") return compare(value, wanted) == 0;
  if (how == "neq") return compare(value, wanted) != 0;
  if (how == "gt") return compare(value, wanted) > 0;
  if (how == "gte") return compare(value, wanted) >= 0;
  if (how == "lt") return compare(value, wanted) < 0;
  if (how == "lte") return compare(value, wanted) <= 0;
  if (how == "in") return is_among(value, wanted);
  if (how == "notin") return !is_among(value, wanted);
  wrong.push_back("nobody knows the operator " + how);
  return false;
}

}  // namespace

bool fits_filters(const Json& object, const Json& filters, std::vector<std::string>& wrong) {
  bool fits = true;
  for (const auto& [name, filter] : filters.items()) {
    const auto found = object.find(name);
    if (found == object.end()) {
      wrong.push_back("nobody knows the column " + name);
      continue;
    }
    if (!filter.is_object()) {
      wrong.push_back("the filter of " + name + " is no object");
      continue;
    }
    Json changed;
    const Json* value = &*found;
    if (name == "geolocation" && value->is_string()) {
      const std::string text = *value;
      changed = text.substr(text.rfind(' ') + 1);
      value = &changed;
    }
    if (name == "external" && value->is_null()) {
      changed = false;
      value = &changed;
    }
    for (const auto& [how, wanted] : filter.items()) {
      fits = holds(*value, how, as_its_kind(wanted, *value), wrong) && fits;
    }
  }
  return fits;
}

void Vast::make_offers() {
  int number = 0;
  for (const Card& card : kCards) {
    for (const char* place : kCountries) {
      const std::string_view name = card.name;
      const bool many = place == kCountries[2] && (name == "RTX 4090" || name == "H100 SXM");
      for (int i = 0; i < (many ? kMany : kEach); ++i) {
        ++number;
        const int gpus = 1 << (i % 4);
        const double hourly = std::round(card.hourly * gpus * (900 + 200 * dice().unit())) / 1000;
        const bool verified = number % 7 != 0;
        // In one place all machines of a card stand side by side.
        const Json cluster = place == kCountries[0] ? Json(100 + number / (kEach * 4)) : Json();
        offers_.push_back({{"id", 1'000'000 + number},
                           {"ask_contract_id", 1'000'000 + number},
                           {"machine_id", 5000 + number},
                           {"host_id", 300 + number / 3},
                           {"cluster_id", cluster},
                           {"gpu_name", card.name},
                           {"num_gpus", gpus},
                           {"gpu_frac", gpus / 8.0},
                           {"gpu_ram", card.memory_mb},
                           {"gpu_total_ram", card.memory_mb * gpus},
                           {"gpu_arch", "nvidia"},
                           {"compute_cap", card.compute_cap},
                           {"cuda_max_good", number % 5 == 0 ? 12.4 : 13.0},
                           {"driver_version", number % 5 == 0 ? "550.54.15" : "580.65.06"},
                           {"cpu_arch", "amd64"},
                           {"cpu_cores", 64},
                           {"cpu_cores_effective", 8.0 * gpus},
                           {"cpu_ram", 512000},
                           {"disk_space", 400.0 * gpus},
                           {"disk_bw", 2500.0},
                           {"storage_cost", 0.15},
                           {"inet_up", 900.0},
                           {"inet_down", number % 3 == 0 ? 150.0 : 2000.0},
                           {"inet_up_cost", 0.005},
                           {"inet_down_cost", 0.003},
                           {"dph_base", hourly},
                           {"min_bid", std::round(hourly * 400) / 1000},
                           {"reliability", (number % 5 == 0 ? 0.9 : 0.96) + 0.0399 * dice().unit()},
                           {"verification", verified ? "verified" : "unverified"},
                           {"verified", verified},
                           {"datacenter", number % 2 == 0},
                           {"hosting_type", number % 2 == 0 ? 1 : 0},
                           {"geolocation", place},
                           {"direct_port_count", number % 11 == 0 ? 0 : 100},
                           {"static_ip", true},
                           {"duration", 2.5e6},
                           {"external", nullptr},
                           {"vms_enabled", false},
                           {"score", 1000.0 / number},
                           {"public_ipaddr", "198.19." + std::to_string(number / 250) + "." +
                                                 std::to_string(number % 250 + 1)}});
        offers_.back()["reliability2"] = offers_.back()["reliability"];
        // Nobody knows where it is.
        const bool placeless = name == "H200" && gpus == 8 && place == kCountries[3];
        if (placeless) offers_.back()["geolocation"] = nullptr;
      }
    }
  }
}

void Vast::multiply_prices(double times) {
  for (Json& offer : offers_) {
    for (const char* name : {"dph_base", "min_bid"}) {
      offer[name] = offer[name].get<double>() * times;
    }
  }
}

Json Vast::priced(const Json& offer, const std::string& type, double storage_gb) const {
  Json out = offer;
  const bool bid = type == "bid" || type == "interruptible";
  if (bid) out["dph_base"] = offer["min_bid"];
  const double disk = offer["storage_cost"].get<double>() * storage_gb / 730;
  out["dph_total"] = out["dph_base"].get<double>() + disk;
  out["is_bid"] = bid;
  const int id = offer["id"];
  const bool taken = std::ranges::any_of(machines, [&](const Machine& one) {
    return one.is_there(now()) && contracts_.at(one.id).offer["id"] == id;
  });
  out["rentable"] = !taken;
  out["rented"] = taken;
  return out;
}

io::HttpReply Vast::search(const Request& request, const Names&) {
  Json filters = request.body;
  const auto take = [&](const char* name, const Json& otherwise) {
    const Json out = filters.value(name, otherwise);
    filters.erase(name);
    return out;
  };
  const Json type = take("type", "on-demand"), order = take("order", Json::array());
  const Json limit = take("limit", 64), storage = take("allocated_storage", 8.0);
  take("disable_bundling", false);
  std::vector<std::string> wrong;
  static constexpr std::string_view kTypes[] = {"on-demand", "ondemand", "bid", "interruptible",
                                                "reserved"};
  if (!type.is_string() || std::ranges::find(kTypes, type.get<std::string>()) == std::end(kTypes)) {
    wrong.push_back("there is no type " + type.dump());
  }
  if (!limit.is_number_integer() || limit < 1) wrong.push_back("no limit is " + limit.dump());
  if (!storage.is_number() || storage < 0) wrong.push_back("no storage is " + storage.dump());
  for (const Json& one : order) {
    const bool known = one.is_array() && one.size() == 2 && one[0].is_string() &&
                       (one[0] == "dph_total" || offers_.front().contains(one[0])) &&
                       (one[1] == "asc" || one[1] == "desc");
    if (!known) wrong.push_back("nobody can order by " + one.dump());
  }
  if (!wrong.empty()) return refuse_all(400, wrong);
  for (const char* name : {"verified", "rentable"}) {
    if (!filters.contains(name)) filters[name] = {{"eq", true}};
  }
  // What is wrong with a filter is so for every offer.
  (void)fits_filters(priced(offers_.front(), type, storage), filters, wrong);
  if (!wrong.empty()) return refuse_all(400, {wrong.front()});
  // Most offers are left out without a price, which takes a copy.
  Json lasting = Json::object(), changing = Json::object();
  for (const auto& [name, filter] : filters.items()) {
    const bool is_priced = std::ranges::find(kPriced, name) != std::end(kPriced);
    (is_priced ? changing : lasting)[name] = filter;
  }
  std::vector<Json> found;
  for (const Json& offer : offers_) {
    if (!fits_filters(offer, lasting, wrong)) continue;
    Json one = priced(offer, type, storage);
    if (!fits_filters(one, changing, wrong)) continue;
    if (one["id"].get<int>() % kBlankAfter == 0 && one["geolocation"].is_string()) {
      one["geolocation"] = one["geolocation"].get<std::string>() + " ";
    }
    if (!dice().chance(dials.flap)) found.push_back(std::move(one));
  }
  std::ranges::stable_sort(found, [&](const Json& left, const Json& right) {
    for (const Json& by : order) {
      const int way = compare(left[by[0].get<std::string>()], right[by[0].get<std::string>()]);
      if (way != 0) return (way < 0) == (by[1] == "asc");
    }
    return false;
  });
  found.resize(std::min({found.size(), limit.get<std::size_t>(), kPage}));
  return json_reply(200, {{"offers", found}});
}

}  // namespace skyward::doubles
