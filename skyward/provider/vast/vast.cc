#include "skyward/provider/vast/vast.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/renting/own_end.h"
#include "skyward/provider/vast/vast_account.h"
#include "skyward/spec/image.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace vast {

namespace {

// Images, agents and packages come to a machine through it.
constexpr double kLeastDown_mbit = 100;

}  // namespace

AskFilter filter_of(const ProviderSpec& spec) {
  return {.datacenters = spec.setting("trust") != "community",
          .min_reliability = number_setting(spec, "min_reliability"),
          .min_cuda = number_setting(spec, "min_cuda"),
          .disk_gb = number_setting(spec, "disk_gb"),
          .min_down_mbit = kLeastDown_mbit,
          .countries = items_of(upper(spec.setting("geolocation")), ',')};
}

}  // namespace vast

namespace {

using namespace vast;
using namespace std::chrono_literals;

// From the launch to the agent's first word: hosts pull the image first.
constexpr Duration kContainerTimeout = 1200s;
// One machine is taken every 4.5 s: this is for sixty of them.
constexpr Duration kTakes = 300s;
// Runs with every driver that the default of min_cuda accepts; frameworks bring their own
// libraries.
constexpr const char* kImage = "nvcr.io/nvidia/cuda:12.0.1-base-ubuntu22.04";

// Whether a pool may be put on this machine, by its size. Its kind is chosen later.
bool is_large_enough(const Ask& ask, const PoolSpec& spec) {
  return ask.cpus >= spec.cpus && ask.memory_gb * 1024 >= static_cast<double>(spec.memory_mb) &&
         (spec.machine.empty() || type_of(ask.gpu, ask.gpus) == spec.machine);
}

bool is_country(std::string_view text) {
  return text.size() == 2 && std::ranges::all_of(text, is_upper);
}

// Of a search for a pool that names no machine: it gets one of the cheapest.
constexpr int kCheapPages = 4;

using OfferKey = std::pair<std::string, std::string>;  // country and type

// NVIDIA's generations, as compute capabilities times 100. A search by names would miss the models
// whose name at Vast.ai is not known here.
struct Generation {
  std::string_view name;
  std::pair<int, int> compute_caps;
};
constexpr Generation kGenerations[] = {
    {"Kepler", {300, 500}}, {"Maxwell", {500, 600}}, {"Pascal", {600, 700}},
    {"Volta", {700, 750}},  {"Turing", {750, 800}},  {"Ampere", {800, 890}},
    {"Ada", {890, 900}},    {"Hopper", {900, 1000}}, {"Blackwell", {1000, 1300}},
};

// Limits a search to what the pool may need, since one request shows few machines. Returns whether
// that is less than the whole market.
bool narrow(AskFilter& filter, const PoolSpec& spec) {
  if (!spec.machine.empty()) {
    keep_type(filter, spec.machine);
    return filter.gpus > 0;
  }
  if (!spec.accelerator || spec.accelerator->custom) return false;
  const auto name = parse_accelerator_name(spec.accelerator->name);
  if (!name) return false;
  const auto found = std::ranges::find(kGenerations, name->model->architecture, &Generation::name);
  if (found == std::end(kGenerations)) return false;
  filter.compute_caps = found->compute_caps;
  return true;
}

// One offer for each kind and country that has as many machines as the pool needs. Its prices are
// those of the dearest of them, and its processors and memory are what all of them have.
void add_offers(std::map<OfferKey, Offer>& offers, const std::vector<Ask>& asks, int nodes,
                const std::function<std::optional<double>(const Ask&)>& price,
                std::optional<double> Offer::* market) {
  std::map<OfferKey, std::vector<const Ask*>> groups;  // cheapest first
  for (const Ask& ask : asks) groups[{ask.country, type_of(ask.gpu, ask.gpus)}].push_back(&ask);
  for (auto& [key, group] : groups) {
    const auto needed = static_cast<std::size_t>(std::max(nodes, 1));
    if (group.size() < needed) continue;
    group.resize(needed);
    const Ask& last = *group.back();
    const auto [at, is_new] = offers.try_emplace(key);
    Offer& offer = at->second;
    if (is_new) {
      offer = {.instance_type = key.second,
               .region = key.first,
               .cpus = last.cpus,
               .memory_gb = last.memory_gb,
               .accelerator = accelerator_in(usual_name(last.gpu)),
               .accelerator_form = form_factor_in(last.gpu),
               .accelerator_count = static_cast<double>(last.gpus),
               .accelerator_memory_gb = last.gpu_memory_gb,
               .architecture = "x86_64",
               .prices_vary = true};
    }
    for (const Ask* const ask : group) {
      offer.cpus = std::min(offer.cpus, ask->cpus);
      offer.memory_gb = std::min(offer.memory_gb, ask->memory_gb);
      offer.accelerator_memory_gb = std::min(offer.accelerator_memory_gb, ask->gpu_memory_gb);
      offer.price_download_gb = std::max(offer.price_download_gb, ask->download_gb);
      offer.price_upload_gb = std::max(offer.price_upload_gb, ask->upload_gb);
    }
    offer.*market = price(last);
  }
}

class ContractSite final : public NamedSite {
 public:
  ContractSite(VastAccount& there, std::string base_url, SweepAccount account, ContractTerms terms,
               std::vector<LaunchTarget> places)
      : NamedSite(std::move(account), std::move(places)),
        there_(there),
        base_url_(std::move(base_url)),
        terms_(std::move(terms)) {}

  std::int64_t wall_s() const override { return there_.api().wall_s(); }

  Result<std::unique_ptr<MachineApi>> machine_api(PoolBook& book, const LaunchTerms& terms,
                                                  Time deadline) override;

 private:
  VastAccount& there_;
  const std::string base_url_;
  const ContractTerms terms_;
};

Result<std::unique_ptr<MachineApi>> ContractSite::machine_api(PoolBook&, const LaunchTerms& launch,
                                                              Time) {
  FirstBoot boot = launch.boot;
  boot.end_timer.container = true;
  boot.end_timer.end_first =
      own_end_script({.key = "CONTAINER_API_KEY",
                      .id = "CONTAINER_ID",
                      .request = fmt::format("-X DELETE {}/api/v0/instances/$id/", base_url_)});
  ContractTerms terms = terms_;
  terms.most_hourly = launch.most_hourly;
  terms.filter.min_duration_s =
      std::min(terms.filter.min_duration_s, seconds(boot.end_timer.lifetime));
  terms.request.onstart = boot_script(boot);
  if (terms.request.onstart.size() > kLongestScript) {
    return fail(
        ErrorKind::invalid,
        fmt::format("Vast.ai: the script that sets a machine up takes {} bytes; the limit is {}",
                    terms.request.onstart.size(), kLongestScript),
        "this is a bug in Skyward: please report it");
  }
  return there_.contracts(region(), mark_, std::move(terms));
}

class VastCloud final : public NamedCloud {
 public:
  VastCloud(World world, RestAccess access, ProviderSpec spec)
      : world_(std::move(world)),
        base_url_(access.account.base_url),
        account_(world_, std::move(access)),
        spec_(std::move(spec)) {}

  std::string_view name() const override { return kProvider; }
  Capabilities capabilities() const override {
    return {.spot = true,
            .fuse = false,
            .strangers = !filter_of(spec_).datacenters,
            .stop_ends_billing = true,
            .provision_timeout = 2 * start_limit() + kTakes,
            .greet_timeout = kContainerTimeout,
            .billing = {.minimum = Duration{}}};
  }
  // Whether a container could destroy itself is only known afterwards.
  bool needs_reaper() const override { return true; }

  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override;
  Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                Ledger& ledger, Time deadline) override;

 private:
  NamedAccount& account() override { return account_; }
  Status look(const PoolSpec& spec, const AskFilter& wanted, bool bids, Time deadline);
  AskFilter filter_for(const PoolSpec& spec) const;
  std::vector<Offer> all_offers(int nodes) const;
  Duration start_limit() const { return from_seconds(number_setting(spec_, "instance_timeout")); }
  bool takes_unverified() const { return spec_.setting("verified_only") == "false"; }
  double bid_multiplier() const { return std::max(1.0, number_setting(spec_, "bid_multiplier")); }

  const World world_;
  const std::string base_url_;
  VastAccount account_;
  Api& api_ = account_.api();
  const ProviderSpec spec_;
  std::vector<Ask> on_demand_;  // of the last look
  std::vector<Ask> bids_;
  bool needs_whole_market_ = false;  // a search for the pool's machines alone finds none
};

Status VastCloud::check(const PoolSpec&) {
  const std::vector<std::string> countries = filter_of(spec_).countries;
  if (std::ranges::all_of(countries, is_country)) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("Vast.ai: geolocation=\"{}\" does not name countries by their two letters",
                  spec_.setting("geolocation")),
      "use their codes, such as geolocation=\"NO,SE\", or leave geolocation out");
}

AskFilter VastCloud::filter_for(const PoolSpec& spec) const {
  AskFilter filter = filter_of(spec_);
  filter.min_cuda = least_cuda(spec_, spec.accelerator);
  filter.min_duration_s = seconds(spec.timeout);
  if (spec.accelerator) filter.min_gpus = static_cast<int>(std::ceil(spec.accelerator->count));
  return filter;
}

// What is on offer now.
Status VastCloud::look(const PoolSpec& spec, const AskFilter& wanted, bool bids, Time deadline) {
  AskFilter filter = wanted;
  for (const bool market : {false, true}) {
    std::vector<Ask>& asks = market ? bids_ : on_demand_;
    asks.clear();
    if (market && !bids) continue;
    filter.bids = market;
    auto found = search_market(api_, filter, takes_unverified(), deadline);
    if (!found) return std::unexpected(to_error(found.error(), "Vast.ai: searching for machines"));
    asks = *std::move(found);
    // Searches for a place take countries alone, and some hosts have no place.
    std::erase_if(asks, [&](const Ask& ask) {
      return !is_country(ask.country) || !is_large_enough(ask, spec);
    });
  }
  return {};
}

std::vector<Offer> VastCloud::all_offers(int nodes) const {
  std::map<OfferKey, Offer> offers;
  add_offers(
      offers, on_demand_, nodes, [](const Ask& ask) { return ask.total; }, &Offer::price_on_demand);
  add_offers(
      offers, bids_, nodes,
      [&](const Ask& ask) -> std::optional<double> {
        if (!ask.total) return std::nullopt;
        return *ask.total + ask.base * (bid_multiplier() - 1);
      },
      &Offer::price_spot);
  std::vector<Offer> out;
  for (const auto& [key, offer] : offers) {
    if (!empty_regions_.contains(offer.region)) out.push_back(offer);
  }
  return out;
}

Result<std::vector<Offer>> VastCloud::offers(const PoolSpec& spec, Time deadline) {
  if (Status free = empty_regions_.quota(); !free) return fail(free);
  const AskFilter wide = filter_for(spec);
  AskFilter filter = wide;
  const bool narrowed = !needs_whole_market_ && narrow(filter, spec);
  if (!narrowed && !spec.accelerator && spec.machine.empty()) filter.most_pages = kCheapPages;
  const bool bids = spec.spot.allows_spot();
  if (Status looked = look(spec, filter, bids, deadline); !looked) return fail(looked);
  if (narrowed && !empty_regions_.any() && !fitting_offers(all_offers(1), spec)) {
    // Vast.ai may know such a machine by something else; if not, the error says what there is.
    needs_whole_market_ = true;
    if (Status looked = look(spec, wide, bids, deadline); !looked) return fail(looked);
  }
  auto found = fitting_offers(all_offers(spec.nodes), spec);
  if (!found) {
    int most = spec.nodes - 1;
    while (most > 0 && !fitting_offers(all_offers(most), spec)) --most;
    if (most > 0) {
      return fail(
          ErrorKind::exhausted,
          fmt::format("Vast.ai: no country has {} such machines available right now; {}",
                      spec.nodes,
                      most == 1 ? "none has more than one" : fmt::format("one has {}", most)),
          fmt::format("use nodes={}, or choose other machines", most));
    }
  }
  if (const std::string places = spec_.setting("geolocation"); !found && !places.empty()) {
    found.error().hint +=
        fmt::format("; geolocation=\"{}\" leaves out all other countries", places);
  } else if (!found && filter_of(spec_).datacenters) {
    found.error().hint += "; trust=\"community\" adds machines of private individuals";
  }
  return ranked(std::move(found), kCloud, "country");
}

Result<std::vector<Offer>> VastCloud::catalogue(Time deadline) {
  PoolSpec any;
  any.cpus = 0;
  any.memory_mb = 0;
  if (Status looked = look(any, filter_for(any), true, deadline); !looked) return fail(looked);
  std::vector<Offer> all = all_offers(1);
  sort_catalogue(all);
  return all;
}

Result<std::unique_ptr<RentedSite>> VastCloud::find_site(const PoolSpec& spec, const Offer& offer,
                                                         Ledger&, Time deadline) {
  auto account = account_.sign_in(deadline);
  if (!account) return fail(account);
  std::vector<LaunchTarget> places;
  for (const Offer& one : with_alternatives_there(ranked_, offer, spec)) {
    places.push_back(launch_target(spec, one));
  }
  const std::string image = spec_.setting("docker_image");
  ContractTerms terms{
      .request = {.image = image.empty() ? kImage : image, .disk_gb = filter_of(spec_).disk_gb},
      .filter = filter_of(spec_),
      .unverified = takes_unverified(),
      .bid_multiplier = bid_multiplier(),
      .start_limit = start_limit(),
      .chosen = offer};
  terms.filter.min_cuda = least_cuda(spec_, spec.accelerator);
  terms.filter.countries = {offer.region};
  terms.filter.min_duration_s = seconds(spec.timeout);
  for (const Offer& one : ranked_) {
    if (one.region == offer.region) terms.offers[one.instance_type] = one;
  }
  return std::make_unique<ContractSite>(account_, base_url_, *std::move(account), std::move(terms),
                                        std::move(places));
}

}  // namespace

Result<std::unique_ptr<RentedCloud>> make_vast_cloud(const ProviderSpec& spec, World world) {
  auto access = find_access(world, spec);
  if (!access) return fail(access);
  return std::make_unique<VastCloud>(std::move(world), *std::move(access), spec);
}

}  // namespace skyward::provider
