#include "skyward/engine/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "skyward/engine/effects.h"
#include "skyward/engine/options.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::engine {
namespace {

using Facts = Budget::Facts;

// The warning comes at this share of the budget, or this long before tasks are refused, whichever
// comes first.
constexpr double kWarnAtShare = 0.8;
constexpr Duration kWarnAhead = 60s;
// Running tasks are told this long before they end. While machines are terminated, which leaves
// more money for the others, the end is not known: they are told this long before it at the latest.
constexpr Duration kNotice = 60s;
constexpr Duration kLateNotice = 15s;

MicroDollars spent_until_now(const Facts& facts) {
  return facts.options.spent_before + facts.costs.now(facts.now).total;
}

// When the book says that what is left of the budget is spent.
Time money_lasts_until(const Facts& facts, const CostBook& book) {
  const CloudClock& clock = facts.costs.clock();
  const Time cloud_now = clock.at(facts.now);
  const MicroDollars left = to_micro_dollars(*facts.spec.budget) - facts.options.spent_before;
  const Time end = book.lasts_until(left, cloud_now);
  return end == kNever ? kNever : facts.now + from_seconds(seconds(end - cloud_now) / clock.rate);
}

// From the decision to the end of the last machine's cost.
Duration stopping_time(const Facts& facts) {
  const int verbs = facts.terminating + facts.provisioning;
  return facts.costs.clock().to_local(kBudgetStop - kCloseTimeout + closing_time(facts.spec) +
                                      verbs * kBudgetVerb);
}

// A task that starts with less time left than this would probably not finish.
Duration draining_time(const Facts& facts) {
  return std::max(facts.costs.clock().to_local(kBudgetDrain), facts.mean_run);
}

// As it was written: "$2.00", "$0.001".
std::string dollars_text(double dollars) {
  const double cents = std::round(dollars * 100);
  const bool whole = std::abs(cents - dollars * 100) < 1e-6;
  return whole ? fmt::format("${:.2f}", cents / 100) : fmt::format("${:.6g}", dollars);
}

// In whole cents, what pays for what was spent before and for all that was asked for until `time`
// from now.
double least_budget(const CostBook& book, MicroDollars before, Time cloud_now, Duration time) {
  constexpr MicroDollars kCent = 10'000;
  constexpr std::int64_t kMost = 100'000'000'000;
  const auto suffices = [&](std::int64_t cents) {
    return book.lasts_until(cents * kCent - before, cloud_now) >= cloud_now + time;
  };
  std::int64_t enough = 1;
  while (enough < kMost && !suffices(enough)) enough *= 2;
  std::int64_t little = enough / 2;
  while (enough - little > 1) {
    const std::int64_t middle = (little + enough) / 2;
    (suffices(middle) ? enough : little) = middle;
  }
  return static_cast<double>(enough) / 100;
}

}  // namespace

Duration closing_time(const PoolSpec& spec) {
  return kCloseTimeout + (spec.volumes.empty() ? Duration{} : kUnmountTimeout);
}

Status Budget::check_offer(const Facts& facts, const Offer& offer) const {
  if (!facts.spec.budget) return {};
  const std::optional<MachinePrice> price = highest_price(offer, facts.spec, facts.options.billing);
  const std::string provider = provider_label(facts.spec.provider.name);
  if (!price) {
    return fail(ErrorKind::invalid,
                fmt::format("{} does not report what its machines cost, so Skyward cannot enforce "
                            "budget={}; nothing was launched",
                            provider, dollars_text(*facts.spec.budget)),
                "leave budget out and limit the pool with timeout=, or use another provider");
  }
  const CloudClock& clock = facts.costs.clock();
  const Time at = clock.at(facts.now);
  const bool asked = facts.costs.book().asked_for_any();
  const bool is_first = !asked && facts.options.spent_before == 0;
  CostBook book = asked ? facts.costs.book() : new_book(facts.options, offer);
  book.on_asked(0, at, facts.spec.nodes, price);
  const Duration least = stopping_time(facts) + clock.to_local(kBudgetDrain);
  if (money_lasts_until(facts, book) >= facts.now + least) return {};
  const Duration cloud_time = clock.to_cloud(least);
  return fail(
      ErrorKind::over_budget,
      fmt::format("{}budget={} does not cover {:.0f} s of {} × {} of {} (up to ${:.4g} an hour "
                  "each), which opening and closing may take; nothing was launched{}",
                  is_first ? "" : "what is left of ", dollars_text(*facts.spec.budget),
                  seconds(cloud_time), facts.spec.nodes, offer.instance_type, provider,
                  to_dollars(price->hourly), is_first ? "" : " there"),
      fmt::format("budget={} would leave a minute of work; or ask for fewer or cheaper machines",
                  dollars_text(least_budget(book, facts.options.spent_before, at,
                                            cloud_time + kWarnAhead))));
}

Status Budget::check_machine(const Facts& facts) const {
  if (!facts.spec.budget) return {};
  CostBook book = facts.costs.book();
  book.on_asked(-1, facts.costs.clock().at(facts.now), 1, facts.costs.highest_price());
  const Time least = facts.now + stopping_time(facts) + draining_time(facts);
  if (money_lasts_until(facts, book) >= least) return {};
  return fail(ErrorKind::over_budget,
              fmt::format("the rest of the budget of {} does not cover another machine",
                          dollars_text(*facts.spec.budget)),
              "open the pool again with a larger budget=");
}

Status Budget::check_rate(const Facts& facts) const {
  if (!facts.spec.max_hourly_cost) return {};
  const MicroDollars hourly = facts.costs.now(facts.now).hourly;
  if (hourly <= to_micro_dollars(*facts.spec.max_hourly_cost)) return {};
  return fail(ErrorKind::over_budget,
              fmt::format("the available machines of {} cost ${:.2f} an hour together, more than "
                          "max_hourly_cost={}; Skyward released them",
                          provider_label(facts.spec.provider.name), to_dollars(hourly),
                          dollars_text(*facts.spec.max_hourly_cost)),
              "raise the limit, ask for fewer or smaller machines, or try again later");
}

Status Budget::check_rate_with_another(const Facts& facts) const {
  if (!facts.spec.max_hourly_cost) return {};
  // One machine each, once the pool has opened.
  const int coming = facts.provisioning + 1;
  const bool prefers_spot = facts.spec.spot.allows_spot();
  const double price = asking_price(facts.offer, prefers_spot).value_or(0);
  const MicroDollars hourly = facts.costs.now(facts.now).hourly + coming * to_micro_dollars(price);
  if (hourly <= to_micro_dollars(*facts.spec.max_hourly_cost)) return {};
  return fail(ErrorKind::over_budget,
              fmt::format("with another machine they would cost ${:.2f} an hour together, more "
                          "than max_hourly_cost={}",
                          to_dollars(hourly), dollars_text(*facts.spec.max_hourly_cost)),
              "raise the limit, or ask for fewer or smaller machines");
}

Budget::Judgement Budget::judge(EngineEffects& effects, const Facts& facts) {
  next_at_ = kNever;
  if (!facts.spec.budget) return {};
  const Time end = money_lasts_until(facts, facts.costs.book());
  if (end == kNever) return {};
  const Time stop_at = end - stopping_time(facts);
  const Time drain_at = stop_at - draining_time(facts);
  const Time warn_at = drain_at - facts.costs.clock().to_local(kWarnAhead);
  const double total = to_dollars(spent_until_now(facts));
  const bool near = total / *facts.spec.budget >= kWarnAtShare || facts.now >= warn_at;
  if (near && !std::exchange(warned_, true)) {
    effects.emit(
        BudgetWarning{.spent = total,
                      .budget = *facts.spec.budget,
                      .hourly_rate = to_dollars(facts.costs.now(facts.now).hourly),
                      .seconds_left = seconds(std::max(drain_at - facts.now, Duration{}))});
  }
  const Time late_notice_at = stop_at - facts.costs.clock().to_local(kLateNotice);
  return {.verdict = facts.now >= stop_at    ? Verdict::stop
                     : facts.now >= drain_at ? Verdict::drain
                                             : Verdict::enough,
          .warn_at = warned_ ? kNever : warn_at,
          .drain_at = drain_at,
          .notice_at = facts.terminating > 0 ? late_notice_at
                                             : stop_at - facts.costs.clock().to_local(kNotice),
          .late_notice_at = late_notice_at,
          .stop_at = stop_at};
}

void Budget::schedule(Time now, const Judgement& judgement, Duration pause) {
  Time next = now < judgement.drain_at ? std::min(judgement.warn_at, judgement.drain_at)
                                       : judgement.stop_at;
  if (draining_ && !noticed_) next = std::min(next, judgement.notice_at);
  next_at_ = std::min(now + pause, next);
}

Error Budget::spent(const Facts& facts) const {
  const double total = to_dollars(spent_until_now(facts));
  const std::string budget = dollars_text(*facts.spec.budget);
  return {ErrorKind::over_budget,
          total >= *facts.spec.budget
              ? fmt::format("the pool's budget of {} is spent: ${:.2f} so far", budget, total)
              : fmt::format("the pool's budget of {} is spent, except for a reserve that pays for "
                            "running tasks and for terminating the machines: ${:.2f} so far",
                            budget, total),
          "open the pool again with a larger budget=, or with fewer or cheaper machines"};
}

Error Budget::outlived(const Facts& facts) const {
  return {ErrorKind::over_budget,
          fmt::format("{} is still launching {} × {}, which may have cost nearly all of the budget "
                      "of {} by now; Skyward releases those that have launched",
                      provider_label(facts.spec.provider.name), facts.spec.nodes,
                      facts.offer.instance_type, dollars_text(*facts.spec.budget)),
          "try again with a larger budget=, with fewer or cheaper machines, or elsewhere"};
}

}  // namespace skyward::engine
