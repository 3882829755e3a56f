#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "skyward/cli/clouds.h"
#include "skyward/cli/commands.h"
#include "skyward/cli/hardware.h"
#include "skyward/cli/print_json.h"
#include "skyward/display/display_text.h"
#include "skyward/provider/settings.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kReadable = 20;  // rows that somebody reads

// An offer, and whose it is.
struct Sold {
  const provider::TableRow* cloud = nullptr;
  Offer offer{};
};

// `spec`: the hardware.
Result<PoolSpec> spec_of(const provider::TableRow& cloud, const OffersOptions& options,
                         PoolSpec spec) {
  ProviderSpec said{.name = std::string(cloud.name), .settings = {}};
  if (!options.region.empty()) said.settings["region"] = options.region;
  if (Status fits = validate_settings(said.name, said.settings); !fits) return fail(fits);
  auto complete = provider::with_settings(provider::world_of_this_process(), said);
  if (!complete) return fail(complete);
  spec.provider = *std::move(complete);
  spec.machine = options.machine;
  spec.architecture = options.architecture;
  spec.spot = options.spot ? Spot::Always() : Spot::Never();
  return spec;
}

ordered_json to_json(const Sold& sold) {
  const Offer& offer = sold.offer;
  ordered_json line = {{"provider", sold.cloud->name},
                       {"instance_type", offer.instance_type},
                       {"region", offer.region},
                       {"cpus", offer.cpus},
                       {"memory_gb", offer.memory_gb},
                       {"accelerator", nullptr},
                       {"accelerator_count", offer.accelerator_count},
                       {"accelerator_memory_gb", offer.accelerator_memory_gb},
                       {"architecture", offer.architecture},
                       {"price_on_demand", nullptr},
                       {"price_spot", nullptr},
                       {"price_download_gb", nullptr},
                       {"price_upload_gb", nullptr}};
  if (!offer.accelerator.empty()) line["accelerator"] = offer.accelerator;
  if (offer.price_on_demand) line["price_on_demand"] = *offer.price_on_demand;
  if (offer.price_spot) line["price_spot"] = *offer.price_spot;
  if (offer.price_download_gb) line["price_download_gb"] = *offer.price_download_gb;
  if (offer.price_upload_gb) line["price_upload_gb"] = *offer.price_upload_gb;
  return line;
}

std::string price(const std::optional<double>& dollars) {
  return dollars ? fmt::format("${:.4f}/h", *dollars) : "?";
}

Result<std::vector<Sold>> offers_of(const provider::TableRow& cloud, const OffersOptions& options,
                                    const PoolSpec& hardware) {
  const auto spec = spec_of(cloud, options, hardware);
  if (!spec) return fail(spec);
  const auto provider = provider::make_provider(spec->provider);
  if (!provider) return fail(provider);
  const auto offers = (*provider)->offers(*spec, options.deadline);
  if (!offers) return fail(offers);
  std::vector<Sold> out;
  for (const Offer& offer : *offers) out.push_back({.cloud = &cloud, .offer = offer});
  return out;
}

// Cheapest first; each cloud's own order stays where prices are equal or unknown.
void sort_by_price(std::vector<Sold>& offers, bool spot) {
  std::ranges::stable_sort(offers, std::less<>{}, [&](const Sold& sold) {
    const auto& price = spot ? sold.offer.price_spot : sold.offer.price_on_demand;
    return price.value_or(std::numeric_limits<double>::infinity());
  });
}

// Of a GB, in the dearer direction.
std::optional<double> traffic_price(const Offer& offer) {
  return std::max(offer.price_download_gb, offer.price_upload_gb);
}

void print_offers(const Streams& streams, const std::vector<Sold>& offers, bool spot) {
  const bool traffic = std::ranges::any_of(
      offers, [](const Sold& sold) { return traffic_price(sold.offer).has_value(); });
  std::vector<std::string> heads = {"PROVIDER", "TYPE",        "REGION",    "CPUS",
                                    "GB",       "ACCELERATOR", "ON DEMAND", "SPOT"};
  if (traffic) heads.emplace_back("TRAFFIC");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [cloud, offer] : offers) {
    rows.push_back({std::string(cloud->name), offer.instance_type, offer.region,
                    std::to_string(offer.cpus),
                    fmt::format("{:g}", std::round(offer.memory_gb * 10) / 10),
                    offer.accelerator.empty()
                        ? "-"
                        : fmt::format("{:g}x {}", offer.accelerator_count, offer.accelerator),
                    price(offer.price_on_demand), spot ? price(offer.price_spot) : "-"});
    const auto each = traffic_price(offer);
    if (traffic) rows.back().push_back(each ? fmt::format("${:.3f}/GB", *each) : "-");
  }
  print_table(streams.out, heads, rows);
}

}  // namespace

int list_offers(const Streams& streams, const OffersOptions& options) {
  PoolSpec hardware;
  if (const Status fits = add_hardware(hardware, options); !fits) {
    return complain(streams, fits.error());
  }
  warn_of_variables(streams);
  auto clouds = clouds_here(provider::world_of_this_process(), options.provider, options.deadline);
  if (!clouds) return complain(streams, clouds.error());
  if (options.provider.empty()) {  // what is free is no offer, and always the cheapest
    std::erase_if(clouds->rows, [](const provider::TableRow* row) { return !row->has_prices; });
    if (clouds->rows.empty()) return complain(streams, no_credentials(*clouds));
  }
  std::vector<Sold> offers;
  std::vector<std::pair<std::string, Error>> without;  // by cloud
  for (const provider::TableRow* cloud : clouds->rows) {
    auto some = offers_of(*cloud, options, hardware);
    if (some) {
      std::ranges::move(*some, std::back_inserter(offers));
    } else {
      without.emplace_back(cloud->name, std::move(some.error()));
    }
  }
  streams.err << note_of(*clouds, "not asked");
  if (clouds->rows.size() > 1) {
    for (auto& [cloud, error] : without) {
      error.message = fmt::format("nothing from {}: {}", cloud, error.message);
    }
  }
  if (offers.empty() && !without.empty()) {
    int worst = 0;
    for (const auto& [cloud, error] : without) worst = std::max(worst, complain(streams, error));
    return worst;
  }
  for (const auto& [cloud, error] : without) {
    streams.err << printable_text(error.message) << '\n';
    if (!error.hint.empty()) streams.err << "  hint: " << printable_text(error.hint) << '\n';
  }
  sort_by_price(offers, options.spot);
  const std::size_t all = offers.size();
  const std::size_t limit = options.limit.value_or(streams.json ? 0 : kReadable);
  if (limit > 0 && all > limit) offers.resize(limit);
  if (streams.json) {
    for (const Sold& sold : offers) print_json(streams, to_json(sold));
    return 0;
  }
  print_offers(streams, offers, options.spot);
  if (offers.size() < all) {
    streams.err << fmt::format("showing {} of {}; --limit 0 shows all\n", offers.size(), all);
  }
  return 0;
}

}  // namespace skyward::cli
