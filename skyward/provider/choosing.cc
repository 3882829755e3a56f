#include "skyward/provider/choosing.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace skyward::provider {

namespace {

// What Python and a frameworkless pool live on; the smallest machines of clouds have less.
constexpr double kLeastCpus = 2;
constexpr std::int64_t kLeastMemory_mb = 2048;
// How many types are tried in one place, the best one among them.
constexpr std::size_t kMostTypes = 5;

// What a machine of the pool must have at least.
OfferRequest needs_of(const PoolSpec& spec) {
  OfferRequest request;
  request.prefer_spot = spec.spot.allows_spot();
  if (!spec.machine.empty()) {  // whatever it has
    request.cpus = 0;
    request.memory_mb = 0;
    return request;
  }
  const int workers = workers_per_node(spec);
  request.accelerator = spec.accelerator;
  request.cpus = spec.cpus > 0 ? spec.cpus * workers : kLeastCpus;
  request.memory_mb = spec.memory_mb > 0 ? spec.memory_mb * workers : kLeastMemory_mb;
  request.architecture = spec.architecture;
  return request;
}

// Without its last word; empty when it was the only one.
std::string_view without_last_word(std::string_view text) {
  const std::size_t blank = text.rfind(' ');
  return blank == std::string_view::npos ? std::string_view() : text.substr(0, blank);
}

// Of machines whose architecture is not known, it turns out at the first contact.
bool has_agent_for(const PoolSpec& spec, const std::string& architecture) {
  return architecture.empty() || architecture == own_architecture() ||
         spec.other_agents.contains(architecture);
}

// Whether it names a partition of a GPU: RunPod's "PRO 6000 MIG 24GB", or a profile, "1g.10gb".
bool is_partition(std::string_view text) {
  if (text.contains(" MIG ")) return true;
  for (std::size_t at = text.find("g."); at != std::string_view::npos;
       at = text.find("g.", at + 1)) {
    const std::size_t after = at + 2;
    if (at > 0 && is_digit(text[at - 1]) && after < text.size() && is_digit(text[after]))
      return true;
  }
  return false;
}

}  // namespace

// From behind, words go until the catalogue knows the rest: memory, then the form.
std::string accelerator_in(const std::string& description) {
  std::string_view text = description;
  const std::size_t times = text.find("x ");
  const bool counted = times != std::string_view::npos && times > 0 &&
                       std::ranges::all_of(text.substr(0, times), is_digit);
  if (counted) text.remove_prefix(times + 2);
  if (text.empty()) return {};
  if (is_partition(text)) return std::string(text);
  for (std::string_view rest = text; !rest.empty(); rest = without_last_word(rest)) {
    if (const auto name = parse_accelerator_name(rest)) return std::string(name->model->name);
  }
  return device_model_name(text);
}

void sort_catalogue(std::vector<Offer>& offers) {
  std::ranges::sort(offers, {}, [](const Offer& offer) {
    return std::tuple(offer.accelerator, offer.accelerator_count, offer.cpus, offer.memory_gb,
                      offer.instance_type, offer.region);
  });
}

Status check_architecture(const PoolSpec& spec) {
  if (has_agent_for(spec, spec.architecture)) return {};
  return fail(ErrorKind::unsupported,
              fmt::format("architecture=\"{0}\": this installation has no agent for {0} machines",
                          spec.architecture),
              "install skyward from a wheel, which has one, or leave architecture out; in a clone "
              "of the repository, './dev cross' builds it");
}

Status check_architecture_of(const PoolSpec& spec, const Offer& offer) {
  if (has_agent_for(spec, offer.architecture)) return {};
  std::string hint = fmt::format("ask for {} machines, for example at AWS", own_architecture());
  // A C++ program itself is of one architecture.
  if (!spec.runtime.python.empty()) {
    hint +=
        ", or install skyward from a wheel, which has one; in a clone of the repository, "
        "'./dev cross' builds it";
  }
  return fail(
      ErrorKind::unsupported,
      fmt::format("{0} is an {1} machine, but this installation has no agent for {1} machines; "
                  "nothing was rented",
                  offer.instance_type, offer.architecture),
      std::move(hint));
}

Status check_nothing_to_choose(const PoolSpec& spec, std::string_view provider) {
  for (const auto& [name, is_asked] :
       {std::pair("accelerator", spec.accelerator.has_value()), std::pair("cpu", spec.cpus > 0),
        std::pair("memory", spec.memory_mb > 0), std::pair("machine", !spec.machine.empty()),
        std::pair("architecture", !spec.architecture.empty())}) {
    if (!is_asked) continue;
    return fail(ErrorKind::invalid,
                fmt::format("{}: the {} provider takes machines as they are", name, provider),
                fmt::format("leave {} out, and name machines that have what you need", name));
  }
  return {};
}

Result<std::vector<Offer>> fitting_offers(std::span<const Offer> offers, const PoolSpec& spec) {
  if (!spec.machine.empty() && offers.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("machine=\"{}\" is not offered for {}", spec.machine,
                            spec.architecture.empty() ? own_architecture() : spec.architecture),
                "'skyward offers list' shows the types that are");
  }
  const auto ranked = rank_offers(offers, needs_of(spec));
  if (!ranked) return fail(ranked);
  std::vector<Offer> out;
  out.reserve(ranked->size());
  for (const std::size_t i : *ranked) out.push_back(offers[i]);
  return out;
}

std::vector<Offer> with_alternatives(std::span<const Offer> ranked, const Offer& offer,
                                     const PoolSpec& spec) {
  std::vector<Offer> out = {offer};
  const auto first = std::ranges::find(ranked, offer.instance_type, &Offer::instance_type);
  const bool prefers_spot = spec.spot.allows_spot();
  const std::optional<double> price = asking_price(offer, prefers_spot);
  if (first == ranked.end() || !price || !spec.machine.empty()) return out;
  for (auto at = first + 1; at != ranked.end() && out.size() < kMostTypes; ++at) {
    const std::optional<double> other = asking_price(*at, prefers_spot);
    // Not the end of the list: one with burstable processors ranks behind dearer ones.
    if (!other || *other > *price * kMostTimesThePrice) continue;
    if (spec.max_hourly_cost && *other * spec.nodes > *spec.max_hourly_cost) continue;
    if (at->accelerator != offer.accelerator) continue;
    out.push_back(*at);
  }
  return out;
}

std::vector<Offer> with_alternatives_there(std::span<const Offer> ranked, const Offer& offer,
                                           const PoolSpec& spec) {
  std::vector<Offer> there;
  std::ranges::copy_if(ranked, std::back_inserter(there),
                       [&](const Offer& one) { return one.region == offer.region; });
  return with_alternatives(there, offer, spec);
}

void keep_affordable(const PoolSpec& spec, LaunchTarget& place) {
  const std::optional<double>& price = place.on_demand_price;
  if (spec.budget && !price) place.spot = place.spot && place.spot_price.has_value();
  if (spec.budget || spec.max_hourly_cost) place.on_demand = place.on_demand && price.has_value();
  if (spec.max_hourly_cost && price) {
    place.on_demand = place.on_demand && *price * spec.nodes <= *spec.max_hourly_cost;
  }
}

LaunchTarget launch_target(const PoolSpec& spec, const Offer& offer) {
  LaunchTarget place{.type = offer.instance_type, .zone = offer.region};
  place.on_demand_price = offer.price_on_demand;
  place.spot_price = offer.price_spot;
  place.on_demand = offer.price_on_demand.has_value();
  place.spot = offer.price_spot.has_value();
  keep_affordable(spec, place);
  return place;
}

}  // namespace skyward::provider
