#include "skyward/engine/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "skyward/engine/costs.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/spec/shortage.h"

namespace skyward::engine {
namespace {

// The first offer within the hourly limit that the budget covers. They are not in the order of
// their prices: a machine that may use its processors for a part of the time ranks behind dearer
// ones.
Result<Offer> affordable(const PoolSpec& spec, const std::vector<Offer>& offers,
                         const Covers& covers) {
  std::optional<double> least;
  const Offer* cheapest = nullptr;  // of those within the hourly limit
  double its_price = 0;
  for (const Offer& offer : offers) {
    const std::optional<double> price = asking_price(offer, spec.spot.allows_spot());
    if (spec.max_hourly_cost) {
      if (!price) continue;  // nobody knows what it costs
      const double cost = *price * spec.nodes;
      least = std::min(least.value_or(cost), cost);
      if (cost > *spec.max_hourly_cost) continue;
    }
    if (covers(offer)) return offer;
    if (cheapest != nullptr && price.value_or(its_price) >= its_price) continue;
    cheapest = &offer;
    its_price = price.value_or(std::numeric_limits<double>::infinity());
  }
  if (cheapest != nullptr) return std::unexpected(covers(*cheapest).error());
  if (!least) {
    return fail(ErrorKind::invalid,
                fmt::format("{} does not report what its machines cost, so Skyward cannot enforce "
                            "max_hourly_cost=${:.2f}",
                            provider_label(spec.provider.name), *spec.max_hourly_cost),
                "leave max_hourly_cost out, or use another provider");
  }
  return fail(
      ErrorKind::over_budget,
      fmt::format("the cheapest {} machines of {} that fit cost ${:.2f} an hour, more than "
                  "max_hourly_cost=${:.2f}",
                  spec.nodes, provider_label(spec.provider.name), *least, *spec.max_hourly_cost),
      "raise the limit, ask for fewer or smaller machines, or allow spot machines");
}

}  // namespace

Result<Offer> Placement::choose(const PoolSpec& spec, Result<std::vector<Offer>> offers,
                                const Covers& covers) const {
  if (!offers) return std::unexpected(explain(std::move(offers).error()));
  std::erase_if(*offers, [&](const Offer& offer) {
    return std::ranges::any_of(refusals_,
                               [&](const auto& refusal) { return refusal.first == offer.region; });
  });
  if (offers->empty()) {
    return std::unexpected(
        explain({ErrorKind::exhausted,
                 fmt::format("{} has no machine that fits", provider_label(spec.provider.name)),
                 "ask for less, or for another region"}));
  }
  Result<Offer> offer = affordable(spec, *offers, covers);
  if (!offer) return std::unexpected(explain_with(offer.error()));
  return offer;
}

std::optional<Error> Placement::refuse(Error why) {
  if (why.kind != ErrorKind::exhausted && refusals_.empty()) return why;
  refusals_.emplace_back(offer_.region, why);
  if (refusals_.size() >= kMaxPlacesTried) return explain(std::move(why));
  return std::nullopt;
}

Error Placement::explain(Error why) const {
  if (refusals_.empty()) return why;
  Error all = refusals_.front().second;
  std::optional<Shortage> shortage = shortage_of(all);
  if (shortage) shortage->regions.clear();
  for (const auto& [region, refusal] : refusals_) {
    if (shortage) shortage->regions.push_back(region);
    if (region != refusals_.front().first) all.message += "; " + refusal.message;
  }
  return shortage ? with_shortage(std::move(all), *shortage) : all;
}

Error Placement::explain_with(Error why) const {
  if (refusals_.empty()) return why;
  Error all = explain(why);
  all.message += "; " + why.message;
  if (!why.hint.empty()) all.hint = std::move(why.hint);
  return all;
}

void Placement::on_prepared(Cluster cluster) {
  prepared_ = true;
  cluster_ = std::move(cluster);
}

void Placement::on_moved_out(const Status& removed) {
  moving_ = false;
  if (!removed) return;
  prepared_ = false;
  cluster_ = {};
}

std::optional<RegionAutoSelected> Placement::other_region(const PoolSpec& spec) const {
  const auto asked = spec.provider.settings.find("region");
  if (asked == spec.provider.settings.end() || asked->second.empty() ||
      asked->second == offer_.region) {
    return std::nullopt;
  }
  return RegionAutoSelected{.requested_region = asked->second,
                            .selected_region = offer_.region,
                            .instance_type = offer_.instance_type,
                            .provider = provider_label(spec.provider.name)};
}

}  // namespace skyward::engine
