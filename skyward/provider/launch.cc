#include "skyward/provider/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace skyward::provider {

namespace {

constexpr std::size_t kRefusalsShown = 4;

std::string_view hint_for(const Spot& spot) {
  switch (spot.kind) {
    case SpotKind::always:
      return "try later, allow on-demand machines (spot=\"if-available\"), or choose another type "
             "or region";
    case SpotKind::percent:
      return "try later, ask for a smaller share of spot machines, or choose another type or "
             "region";
    case SpotKind::if_available:
    case SpotKind::never:
    case SpotKind::cheapest:
      break;
  }
  return "try later, ask for fewer machines, or choose another type or region";
}

void add_once(std::vector<std::string>& texts, std::string text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
}

// `paid`: machines are released because of it that cost money.
RefusedPart part_of(const LaunchFailure& why, bool paid) {
  if (why.quota) return RefusedPart::market;
  if (why.type) return RefusedPart::type;
  return why.part || paid ? RefusedPart::count : RefusedPart::place;
}

}  // namespace

Error no_longer_wanted() {
  return {ErrorKind::cancelled, "the pool is closing and launches no more machines", {}};
}

LaunchFailure LaunchRecord::refused(const LaunchTarget& place, bool spot, std::string_view code,
                                    LaunchFailure why) {
  if (why.error.kind != ErrorKind::denied) {
    denied_.reset();
  } else if (refusals_.empty()) {
    denied_ = why.error;
  }
  if (refusals_.empty()) advice_ = why.error.hint;
  if (why.error.hint != advice_) advice_.clear();
  add_once(refusals_,
           fmt::format("{} in {}{}: {}", place.type, place.zone, spot ? " as spot" : "", code));
  if (why.quota || why.account) hint_ = why.error.hint;
  const bool is_sentence = code.contains(' ');  // and says it all
  if (why.quota && !why.account) quota_ = is_sentence ? "" : ": " + why.error.message;
  only_quotas_ = only_quotas_ && why.quota;
  return why;
}

void LaunchRecord::withdrawn(std::string why) {
  denied_.reset();
  advice_.clear();
  add_once(refusals_, std::move(why));
  only_quotas_ = false;
}

void LaunchRecord::note_running(std::size_t machines) {
  most_running_ = std::max(most_running_, static_cast<int>(machines));
}

Error LaunchRecord::no_machines(LaunchOutcome outcome, const LaunchSpec& spec) const {
  if (denied_) return *denied_;
  const std::size_t shown = std::min(refusals_.size(), kRefusalsShown);
  std::string why =
      refusals_.empty()
          ? "no machine type is sold on these terms (spot or on demand, within the price limit)"
          : fmt::format("{}{}",
                        fmt::join(refusals_.begin(),
                                  refusals_.begin() + static_cast<std::ptrdiff_t>(shown), "; "),
                        refusals_.size() > shown ? "; …" : "");
  const bool is_quota = only_quotas_ && quota_;
  if (is_quota) why += *quota_;
  const std::string what =
      is_quota ? fmt::format("the account's quota does not allow {} more {}machine{} there",
                             spec.count, spec.spot.kind == SpotKind::always ? "spot " : "",
                             spec.count == 1 ? "" : "s")
      : outcome == LaunchOutcome::spot_minimum_not_met
          ? fmt::format("fewer than {} of {} machines are available as spot machines",
                        least_spot_count(spec.spot, spec.count), spec.count)
          : fmt::format("no capacity for {} {}machine{}", spec.count,
                        spec.spot.kind == SpotKind::always ? "spot " : "",
                        spec.count == 1 ? "" : "s");
  Error error{.kind = ErrorKind::exhausted,
              .message = fmt::format("{}{}{}: {}: {}", cloud_, region_.empty() ? "" : ", ", region_,
                                     what, why),
              .hint = !hint_.empty()     ? hint_
                      : !advice_.empty() ? advice_
                                         : std::string(hint_for(spec.spot))};
  if (spec.spot.kind != SpotKind::always &&
      std::ranges::none_of(spec.places, &LaunchTarget::on_demand)) {
    error.hint +=
        "; on-demand machines cost more than max_hourly_cost, or their price is not known";
  }
  return with_shortage(std::move(error), shortage(outcome, spec));
}

Shortage LaunchRecord::shortage(LaunchOutcome outcome, const LaunchSpec& spec) const {
  Shortage out{.requested = spec.count, .got = most_running_, .region = region_};
  if (!region_.empty()) out.regions = {region_};
  if (!spec.places.empty()) out.instance_type = spec.places.front().type;
  if (only_quotas_ && !hint_.empty()) {
    out.kind = ShortageKind::quota;
  } else if (outcome == LaunchOutcome::spot_minimum_not_met) {
    out.kind = ShortageKind::spot_minimum;
    out.requested = least_spot_count(spec.spot, spec.count);
  } else if (spec.spot.kind == SpotKind::always) {
    out.kind = ShortageKind::spot_capacity;
  }
  for (const LaunchTarget& place : spec.places) {
    if (out.offers.size() == kRefusalsShown) break;
    const std::string where = region_.empty() ? place.zone : region_;
    const std::string price =
        place.on_demand_price ? fmt::format(", ${:.4f} on demand", *place.on_demand_price) : "";
    add_once(out.offers, fmt::format("{} in {}{}", place.type, where, price));
  }
  return out;
}

Result<std::vector<MachineStatus>> launch_all(const World& world, const LaunchSpec& spec,
                                              LaunchRecord& record, const LaunchActions& actions,
                                              Time deadline) {
  LaunchPlan plan(spec.spot, spec.count, spec.places);
  std::vector<MachineStatus> machines;
  const auto give_up = [&](Error why) -> Result<std::vector<MachineStatus>> {
    if (Status ended = actions.release(machines); !ended) {
      why.message += "; " + ended.error().message;
    }
    return std::unexpected(std::move(why));
  };
  while (true) {
    const Step step = plan.next();
    if (const auto* outcome = std::get_if<LaunchOutcome>(&step)) {
      if (*outcome == LaunchOutcome::complete) return machines;
      return give_up(record.no_machines(*outcome, spec));
    }
    if (world.launching.stop_requested()) return give_up(no_longer_wanted());
    if (const auto* wait = std::get_if<Wait>(&step)) {
      if (deadline - world.now() <= wait->duration) {
        return give_up(record.no_machines(plan.shortfall(), spec));
      }
      wait_while_launching(world, wait->duration);
    } else if (std::holds_alternative<Release>(step)) {
      if (Status ended = actions.release(machines); !ended) return fail(ended);
      machines.clear();
    } else {
      auto made = actions.attempt(std::get<Attempt>(step));
      if (made) {
        std::ranges::move(*made, std::back_inserter(machines));
        record.note_running(machines.size());
        plan.on_launched();
      } else if (made.error().capacity) {
        plan.on_refused(part_of(made.error(), actions.runs_first && !machines.empty()));
      } else if (made.error().error.kind == ErrorKind::timeout && record.several()) {
        return give_up(record.no_machines(plan.shortfall(), spec));
      } else {
        return give_up(std::move(made.error().error));
      }
    }
  }
}

}  // namespace skyward::provider
