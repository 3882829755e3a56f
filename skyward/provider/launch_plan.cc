#include "skyward/provider/launch_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "skyward/base/check.h"

namespace skyward::provider {

Spot policy_beside(const Spot& policy, int nodes, int standing, int spot, int count) {
  if (policy.kind != SpotKind::percent || standing == 0) return policy;
  const int leaving = std::max(0, standing + count - nodes);
  const int staying = std::max(0, spot - leaving);
  const int least = std::clamp(least_spot_count(policy, nodes) - staying, 0, count);
  if (least == 0) return Spot::IfAvailable(policy.retries, policy.interval);
  if (least == count) return Spot::Always(policy.retries, policy.interval);
  Spot out = policy;
  out.percentage = static_cast<double>(least) / count;
  return out;
}

LaunchPlan::LaunchPlan(const Spot& spot, int count, const std::vector<LaunchTarget>& places)
    : places_(places), interval_(spot.interval) {
  const int rounds = std::max(1, spot.retries);
  switch (spot.kind) {
    case SpotKind::always:
      stages_.push_back({options_of(true), count, 0, rounds});
      break;
    case SpotKind::if_available:
      stages_.push_back({options_of(true), count, 0, rounds});
      stages_.push_back({options_of(false), count, 0, 1});
      break;
    case SpotKind::never:
      stages_.push_back({options_of(false), count, 0, 1});
      break;
    case SpotKind::percent: {
      const int least = least_spot_count(spot, count);
      stages_.push_back({options_of(true), count, 0, least == count ? rounds : 1});
      if (least == 0) stages_.push_back({options_of(false), count, 0, 1});
      if (least > 0 && least < count) {
        std::vector<Option> mixed = options_of(true);
        std::erase_if(mixed, [&](const Option& one) { return !fills_up(one.placement); });
        stages_.push_back({std::move(mixed), least, count - least, rounds});
      }
      minimum_ = least > 0;
      break;
    }
    case SpotKind::cheapest: {
      std::vector<Option> options = options_of(true);
      std::ranges::copy(options_of(false), std::back_inserter(options));
      const auto price = [this](const Option& option) {
        const LaunchTarget& place = places_[option.placement];
        return (option.spot ? place.spot_price : place.on_demand_price)
            .value_or(std::numeric_limits<double>::infinity());
      };
      std::ranges::stable_sort(options, {}, price);
      stages_.push_back({std::move(options), count, 0, rounds});
      break;
    }
  }
}

std::vector<LaunchPlan::Option> LaunchPlan::options_of(bool spot) const {
  std::vector<Option> options;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (spot ? places_[i].spot : places_[i].on_demand) options.push_back({i, spot});
  }
  return options;
}

// Whether its zone has machines on demand for the rest.
bool LaunchPlan::fills_up(std::size_t placement) const {
  return std::ranges::any_of(places_, [&](const LaunchTarget& one) {
    return one.on_demand && one.zone == places_[placement].zone;
  });
}

Step LaunchPlan::next() {
  if (complete_) return LaunchOutcome::complete;
  if (std::exchange(release_, false)) return Release{};
  if (std::exchange(waiting_, false)) return Wait{interval_};
  while (stage_ < stages_.size() && stages_[stage_].options.empty()) ++stage_;
  if (stage_ >= stages_.size()) {
    return shortfall();
  }
  const Stage& stage = stages_[stage_];
  if (!launched_) {
    const Option& option = stage.options[option_];
    return Attempt{option.placement, stage.count, option.spot};
  }
  return Attempt{rest_at_, stage.rest, false};
}

void LaunchPlan::on_launched() {
  SKYWARD_CHECK(stage_ < stages_.size(), "no attempt was under way");
  const Stage& stage = stages_[stage_];
  if (launched_ || stage.rest == 0) {
    complete_ = true;
    return;
  }
  launched_ = true;
  minimum_ = false;
  const std::size_t main = stage.options[option_].placement;
  rest_at_ = main;  // the same type first
  for (std::size_t i = 0; !places_[rest_at_].on_demand && i < places_.size(); ++i) {
    if (places_[i].on_demand && places_[i].zone == places_[main].zone) rest_at_ = i;
  }
}

// No place offers the type in that market any more, so its options go. Returns whether the current
// option is one of them: then option_ is at the next one.
bool LaunchPlan::drop_type(const std::string& type, bool spot) {
  for (LaunchTarget& place : places_) {
    if (place.type == type) (spot ? place.spot : place.on_demand) = false;
  }
  bool current_went = false;
  for (Stage& stage : stages_) {
    const auto goes = [&](const Option& option) {
      const LaunchTarget& place = places_[option.placement];
      const bool is_offered = option.spot ? place.spot : place.on_demand;
      return !is_offered || (stage.rest > 0 && !fills_up(option.placement));
    };
    if (&stage == &stages_[stage_]) {
      const auto current = stage.options.begin() + static_cast<std::ptrdiff_t>(option_);
      current_went = goes(*current);
      option_ -= static_cast<std::size_t>(std::count_if(stage.options.begin(), current, goes));
    }
    std::erase_if(stage.options, goes);
  }
  return current_went;
}

void LaunchPlan::on_refused(RefusedPart part) {
  SKYWARD_CHECK(stage_ < stages_.size(), "no attempt was under way");
  Stage& stage = stages_[stage_];
  const Option tried = stage.options[option_];
  bool went = false;
  if (part == RefusedPart::type) {
    const std::string type = places_[launched_ ? rest_at_ : tried.placement].type;
    went = drop_type(type, tried.spot && !launched_);
  }
  if (launched_) {  // the rest is not available there: another type of that zone, or none
    const std::size_t main = tried.placement;
    const auto fits = [&](std::size_t i) {
      return i != main && places_[i].on_demand && places_[i].zone == places_[main].zone;
    };
    std::size_t at = rest_at_ == main ? 0 : rest_at_ + 1;
    while (at < places_.size() && !fits(at)) ++at;
    if (at < places_.size() && part != RefusedPart::market) {
      rest_at_ = at;
      return;
    }
    launched_ = false;
    release_ = true;
  }
  if (part == RefusedPart::count) {
    stage.options.erase(stage.options.begin() + static_cast<std::ptrdiff_t>(option_));
    went = true;
  }
  // No quota in this market: its options go.
  if (part == RefusedPart::market) {
    std::erase_if(stage.options, [&](const Option& option) { return option.spot == tried.spot; });
    option_ = 0;
    round_ = 0;
    return;
  }
  if (!went) ++option_;
  end_round();
}

// If all options were tried.
void LaunchPlan::end_round() {
  const Stage& stage = stages_[stage_];
  if (option_ < stage.options.size()) return;
  option_ = 0;
  if (!stage.options.empty() && ++round_ < stage.rounds) {
    waiting_ = true;
    return;
  }
  round_ = 0;
  ++stage_;
}

}  // namespace skyward::provider
