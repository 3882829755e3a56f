#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/settings.h"
#include "skyward/spec/accelerator.h"
#include "skyward/spec/memory_size.h"

namespace skyward::cli {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kReadable = 20;  // rows that somebody reads

Result<PoolSpec> spec_of(const OffersOptions& options) {
  ProviderSpec said{.name = options.provider};
  if (!options.region.empty()) said.settings["region"] = options.region;
  auto complete = provider::with_settings(provider::world_of_this_process(), said);
  if (!complete) return fail(complete);
  PoolSpec spec;
  spec.provider = *std::move(complete);
  if (!options.accelerator.empty()) {
    auto accelerator = catalogue_accelerator(options.accelerator, {.count = options.count});
    if (!accelerator) return fail(accelerator);
    spec.accelerator = *std::move(accelerator);
  }
  spec.cpus = options.cpus;
  if (!options.memory.empty()) {
    const auto memory = parse_memory_mb(options.memory);
    if (!memory) return fail(memory);
    spec.memory_mb = *memory;
  }
  spec.machine = options.machine;
  spec.spot = options.spot ? Spot::Always() : Spot::Never();
  return spec;
}

ordered_json to_json(const Offer& offer) {
  ordered_json line = {{"instance_type", offer.instance_type},
                       {"region", offer.region},
                       {"cpus", offer.cpus},
                       {"memory_gb", offer.memory_gb},
                       {"accelerator", nullptr},
                       {"accelerator_count", offer.accelerator_count},
                       {"accelerator_memory_gb", offer.accelerator_memory_gb},
                       {"architecture", offer.architecture},
                       {"price_on_demand", nullptr},
                       {"price_spot", nullptr}};
  if (!offer.accelerator.empty()) line["accelerator"] = offer.accelerator;
  if (offer.price_on_demand) line["price_on_demand"] = *offer.price_on_demand;
  if (offer.price_spot) line["price_spot"] = *offer.price_spot;
  return line;
}

std::string price(const std::optional<double>& dollars) {
  return dollars ? fmt::format("${:.4f}", *dollars) : "?";
}

// Those whose machines are there already have nothing to choose from.
Status sells(const std::string& name) {
  const provider::TableRow* row = provider::find_row(name);
  if (row == nullptr || row->diagnose != nullptr) return {};
  const std::string why = row->simulated ? "exists only inside the program that tests with it"
                                         : "uses machines you already have";
  return fail(ErrorKind::invalid, fmt::format("there are no offers of \"{}\": it {}", name, why),
              "'--provider aws' lists machines that can be rented");
}

}  // namespace

int list_offers(const Streams& streams, const OffersOptions& options) {
  if (const Status selling = sells(options.provider); !selling) {
    return complain(streams, selling.error());
  }
  warn_of_variables(streams);
  const auto spec = spec_of(options);
  if (!spec) return complain(streams, spec.error());
  const auto provider = provider::make_provider(spec->provider);
  if (!provider) return complain(streams, provider.error());
  auto offers = (*provider)->offers(*spec, io::EventLoop::now() + options.timeout);
  if (!offers) return complain(streams, offers.error());
  const std::size_t all = offers->size();
  const std::size_t limit = options.limit.value_or(streams.json ? 0 : kReadable);
  if (limit > 0 && all > limit) offers->resize(limit);
  if (streams.json) {
    for (const Offer& offer : *offers) streams.out << to_json(offer).dump() << '\n';
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Offer& offer : *offers) {
    rows.push_back({offer.instance_type, offer.region, std::to_string(offer.cpus),
                    fmt::format("{:g}", std::round(offer.memory_gb * 10) / 10),
                    offer.accelerator.empty()
                        ? "-"
                        : fmt::format("{:g}x {}", offer.accelerator_count, offer.accelerator),
                    price(offer.price_on_demand), options.spot ? price(offer.price_spot) : "-"});
  }
  print_table(streams.out, {"TYPE", "REGION", "CPUS", "GB", "ACCELERATOR", "ON DEMAND", "SPOT"},
              rows);
  if (rows.size() < all) {
    streams.err << fmt::format("showing {} of {}; --limit 0 shows all\n", rows.size(), all);
  }
  return 0;
}

}  // namespace skyward::cli
