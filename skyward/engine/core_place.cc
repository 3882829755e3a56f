// Where the machines are bought: the offer that a pool takes, and the regions that are asked when
// the first one has none. See core.h for the idea.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/spec/shortage.h"

namespace skyward::engine {
namespace {

// The first offer within the budget.
Result<Offer> affordable(const PoolSpec& spec, const std::vector<Offer>& offers) {
  if (!spec.max_hourly_cost) return offers.front();
  std::optional<double> least;
  for (const Offer& offer : offers) {
    const std::optional<double> price = asking_price(spec, offer);
    if (!price) continue;  // nobody knows what it costs
    const double cost = *price * spec.nodes;
    if (cost <= *spec.max_hourly_cost) return offer;
    least = std::min(least.value_or(cost), cost);
  }
  return fail(least ? ErrorKind::over_budget : ErrorKind::invalid,
              least ? fmt::format("the cheapest {} machines of {} that fit cost ${:.2f} an hour, "
                                  "more than max_hourly_cost=${:.2f}",
                                  spec.nodes, provider_label(spec.provider.name), *least,
                                  *spec.max_hourly_cost)
                    : fmt::format("{} does not report what its machines cost, so Skyward cannot "
                                  "keep max_hourly_cost=${:.2f}",
                                  provider_label(spec.provider.name), *spec.max_hourly_cost),
              "raise the limit, ask for fewer or smaller machines, or allow spot machines");
}

bool has_refused(const State& state, const Offer& offer) {
  return std::ranges::any_of(state.refusals,
                             [&](const auto& refusal) { return refusal.first == offer.region; });
}

// What all regions said, the first one first.
Error all_refusals(const State& state) {
  Error all = state.refusals.front().second;
  std::optional<Shortage> shortage = shortage_of(all);
  if (shortage) shortage->regions.clear();
  for (const auto& [region, why] : state.refusals) {
    if (shortage) shortage->regions.push_back(region);
    if (region != state.refusals.front().first) all.message += "; " + why.message;
  }
  return shortage ? with_shortage(std::move(all), *shortage) : all;
}

void prepare(State& state, Effects& effects) {
  state.phase.set(Phase::preparing);
  effects.prepare(state.offer);
}

}  // namespace

void tell_other_region(const State& state, Effects& effects) {
  const auto& settings = state.spec.provider.settings;
  const auto asked = settings.find("region");
  if (asked == settings.end() || asked->second.empty() || asked->second == state.offer.region) {
    return;
  }
  effects.emit(RegionAutoSelected{.requested_region = asked->second,
                                  .selected_region = state.offer.region,
                                  .instance_type = state.offer.instance_type,
                                  .provider = provider_label(state.spec.provider.name)});
}

void choose_offer(State& state, Effects& effects, Time now, Result<std::vector<Offer>> offers) {
  const bool again = !state.refusals.empty();
  if (offers) {
    std::erase_if(*offers, [&](const Offer& offer) { return has_refused(state, offer); });
  }
  if (again && (!offers || offers->empty())) {
    return fail_open(state, effects, now, all_refusals(state));
  }
  if (!offers) return fail_open(state, effects, now, offers.error());
  if (offers->empty()) {
    return fail_open(
        state, effects, now,
        {ErrorKind::exhausted,
         fmt::format("{} has no machine that fits", provider_label(state.spec.provider.name)),
         "ask for less, or for another region"});
  }
  auto offer = affordable(state.spec, *offers);
  const Status paid = offer ? state.budget.check_offer(budget_facts(state, state.opened_at), *offer)
                            : Status(std::unexpected(offer.error()));
  if (!paid) return fail_open(state, effects, now, again ? all_refusals(state) : paid.error());
  state.offer = *std::move(offer);
  state.costs.take_offer(state.options, state.offer);
  if (!state.prepared) return prepare(state, effects);
  state.phase.set(Phase::moving);
  state.moving = true;
  state.bills.ask_last(effects, state.costs.book());
  effects.teardown();
}

void look_elsewhere(State& state, Effects& effects, Time now, Error why) {
  const bool exhausted = why.kind == ErrorKind::exhausted;
  const std::string text = why.message;
  if (!exhausted && state.refusals.empty()) return fail_open(state, effects, now, std::move(why));
  state.refusals.emplace_back(state.offer.region, std::move(why));
  if (state.refusals.size() >= kMaxPlacesTried) {
    return fail_open(state, effects, now, all_refusals(state));
  }
  effects.emit(ErrorEvent{text + "; asking elsewhere", std::nullopt});
  state.phase.set(Phase::offering);
  effects.list_offers();
}

void on_moved_out(State& state, Effects& effects, Time now, const Status& status) {
  if (status) {
    state.prepared = false;
    state.cluster = {};
  }
  if (state.phase != Phase::moving) return;
  if (status) return prepare(state, effects);
  Error why = all_refusals(state);
  why.message += "; " + status.error().message;
  fail_open(state, effects, now, std::move(why));
}

}  // namespace skyward::engine
