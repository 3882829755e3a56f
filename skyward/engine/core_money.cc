// Money: what each machine costs, and the budget. Before the budget is spent, the pool runs dry:
// nothing is begun or bought any more, what runs may finish, idle machines go at once; in the end
// all of them go, early enough that giving them back is paid for, too.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::engine {
namespace {

// Warned of at the latest: when so much is spent, and so long before tasks are refused.
constexpr double kWarnAtShare = 0.8;
constexpr Duration kWarnAhead = 60s;

std::optional<MachinePrice> to_price(bool spot, const std::optional<double>& spot_dollars,
                                     const std::optional<double>& on_demand_dollars) {
  const std::optional<double>& dollars = spot && spot_dollars ? spot_dollars : on_demand_dollars;
  if (!dollars) return std::nullopt;
  MachinePrice price{.hourly = to_micro_dollars(*dollars), .spot = spot};
  if (on_demand_dollars) price.on_demand_hourly = to_micro_dollars(*on_demand_dollars);
  return price;
}

// Spot machines may turn out to be others.
std::optional<MachinePrice> highest_price(const Offer& offer) {
  return to_price(!offer.price_on_demand, offer.price_spot, offer.price_on_demand);
}

CostBook new_book(const State& state, const Offer& offer) {
  BillingRules rules = state.options.billing;
  if (offer.billing_increment_minutes > 0) {
    rules.quantum = rules.minimum = std::chrono::minutes(offer.billing_increment_minutes);
  }
  return CostBook(rules, state.options.charges_interval > Duration{});
}

Duration for_the_cloud(const State& state, Duration ours) {
  return from_seconds(seconds(ours) * state.money.rate);
}

// A cloud that is played may let its time pass faster: what is set aside for it is of its time.
Duration by_our_clock(const State& state, Duration theirs) {
  return from_seconds(seconds(theirs) / state.money.rate);
}

// When the book says that so much is spent.
Time money_lasts_until(const State& state, const CostBook& book, Time now) {
  const Time there = at_the_cloud(state, now);
  const Time end = book.lasts_until(to_micro_dollars(*state.spec.budget), there);
  return end == kNever ? kNever : now + from_seconds(seconds(end - there) / state.money.rate);
}

CostNow cost_now(const State& state, Time now) {
  return state.money.book.now(at_the_cloud(state, now));
}

// From the decision to the end of the last machine's cost.
Duration stopping_time(const State& state) {
  const auto verbs = static_cast<int>(state.terminating.size()) + state.provisioning;
  return by_our_clock(state,
                      kBudgetStop - kCloseTimeout + closing_time(state) + verbs * kBudgetVerb);
}

// A task that is begun with less than this before the end would hardly be done in time.
Duration draining_time(const State& state) {
  return std::max(by_our_clock(state, kBudgetDrain),
                  Duration(static_cast<std::int64_t>(state.mean_run_ns)));
}

// As it was written: "$2.00", "$0.001".
std::string dollars_text(double dollars) {
  const double cents = std::round(dollars * 100);
  const bool whole = std::abs(cents - dollars * 100) < 1e-6;
  return whole ? fmt::format("${:.2f}", cents / 100) : fmt::format("${:.6g}", dollars);
}

// In whole cents, what pays for all that was asked for until `time` from now.
double least_budget(const CostBook& book, Time there, Duration time) {
  constexpr MicroDollars kCent = 10'000;
  constexpr std::int64_t kMost = 100'000'000'000;
  const auto suffices = [&](std::int64_t cents) {
    return book.lasts_until(cents * kCent, there) >= there + time;
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

Error spent_error(const State& state, Time now) {
  return {ErrorKind::over_budget,
          fmt::format("the pool's budget of {} is spent: ${:.2f} so far; the rest pays for running "
                      "tasks and for terminating the machines",
                      dollars_text(*state.spec.budget), to_dollars(cost_now(state, now).total)),
          "open the pool again with a larger budget=, or with fewer or cheaper machines"};
}

void warn(State& state, Effects& effects, Time now, Time drain_at) {
  if (std::exchange(state.money.warned, true)) return;
  const CostNow cost = cost_now(state, now);
  effects.emit(BudgetWarning{.spent = to_dollars(cost.total),
                             .budget = *state.spec.budget,
                             .hourly_rate = to_dollars(cost.hourly),
                             .seconds_left = seconds(std::max(drain_at - now, Duration{}))});
}

void start_draining(State& state, Effects& effects, Time now) {
  state.money.draining = true;
  effects.stop_buying();
  const Error why = spent_error(state, now);
  effects.emit(ErrorEvent{why.message, std::nullopt});
  if (!state.abandoned) state.abandoned = why;
  fail_waiting_tasks(state, effects, *state.abandoned);
  for (Node& node : state.nodes) {
    if (node.successor) {
      const InstanceId id = std::exchange(node.successor, {})->id;
      effects.emit(InstanceStopping{id});
      release(state, effects, {id});
    }
    if (node.state == NodeState::ready) recall_all(effects, node);
    dismiss_when_done(state, effects, now, node);
  }
}

}  // namespace

Time at_the_cloud(const State& state, Time now) { return now + state.money.ahead; }

Status check_budget(const State& state, const Offer& offer) {
  if (!state.spec.budget) return {};
  const std::optional<MachinePrice> price = highest_price(offer);
  const std::string provider = provider_label(state.spec.provider.name);
  if (!price) {
    return fail(ErrorKind::invalid,
                fmt::format("{} does not report what its machines cost, so Skyward cannot keep "
                            "budget=${:.2f}; nothing was launched",
                            provider, *state.spec.budget),
                "leave budget out and limit the pool with timeout=, or use another provider");
  }
  CostBook book = new_book(state, offer);
  const Time now = state.opened_at;
  book.on_asked(0, at_the_cloud(state, now), state.spec.nodes, price);
  const Duration least = stopping_time(state) + by_our_clock(state, kBudgetDrain);
  if (money_lasts_until(state, book, now) >= now + least) return {};
  const Duration there = for_the_cloud(state, least);
  return fail(
      ErrorKind::over_budget,
      fmt::format("budget={} does not cover {:.0f} s of {} × {} of {} (${:.4g} an hour each), "
                  "which opening and closing may take; nothing was launched",
                  dollars_text(*state.spec.budget), seconds(there), state.spec.nodes,
                  offer.instance_type, provider, to_dollars(price->hourly)),
      fmt::format("budget={} would leave a minute of work; or ask for fewer or cheaper machines",
                  dollars_text(least_budget(book, at_the_cloud(state, now), there + kWarnAhead))));
}

Status can_pay(const State& state, Time now, int count) {
  if (!state.spec.budget) return {};
  CostBook book = state.money.book;
  book.on_asked(-1, at_the_cloud(state, now), count, highest_price(state.offer));
  const Time least = now + stopping_time(state) + draining_time(state);
  if (money_lasts_until(state, book, now) >= least) return {};
  return fail(ErrorKind::over_budget,
              fmt::format("the rest of the budget of ${:.2f} does not cover another machine",
                          *state.spec.budget),
              "open the pool again with a larger budget=");
}

Status check_rate(const State& state, Time now, int more) {
  if (!state.spec.max_hourly_cost) return {};
  const MicroDollars there = cost_now(state, now).hourly;
  // One machine each, once the pool has opened.
  const int coming = more > 0 ? state.provisioning + more : 0;
  const double price = asking_price(state.spec, state.offer).value_or(0);
  const MicroDollars hourly = there + coming * to_micro_dollars(price);
  if (hourly <= to_micro_dollars(*state.spec.max_hourly_cost)) return {};
  if (more > 0) {
    return fail(ErrorKind::over_budget,
                fmt::format("with another machine they would cost ${:.2f} an hour together, more "
                            "than max_hourly_cost=${:.2f}",
                            to_dollars(hourly), *state.spec.max_hourly_cost),
                "raise the limit, or ask for fewer or smaller machines");
  }
  return fail(ErrorKind::over_budget,
              fmt::format("the available machines of {} cost ${:.2f} an hour together, more than "
                          "max_hourly_cost=${:.2f}; Skyward released them",
                          provider_label(state.spec.provider.name), to_dollars(hourly),
                          *state.spec.max_hourly_cost),
              "raise the limit, ask for fewer or smaller machines, or try again later");
}

// What launches in another region of the cloud have cost stays in it.
void start_book(State& state) {
  if (!state.money.book.asked_for_any()) state.money.book = new_book(state, state.offer);
}

void note_asked(State& state, Time now, int count, NodeId first_node) {
  state.money.book.on_asked(static_cast<int>(first_node.value), at_the_cloud(state, now), count,
                            highest_price(state.offer));
}

void note_bought(State& state, Time asked, NodeId node, const Instance& instance) {
  const auto& spot = instance.price_spot ? instance.price_spot : state.offer.price_spot;
  const auto& plain =
      instance.price_on_demand ? instance.price_on_demand : state.offer.price_on_demand;
  state.money.book.on_launched(instance.id, static_cast<int>(node.value), asked,
                               to_price(instance.spot, spot, plain));
}

void note_gone(State& state, Time now, const std::vector<InstanceId>& instances) {
  const Time there = at_the_cloud(state, now);
  for (const InstanceId& id : instances) state.money.book.on_gone(id, there);
}

void note_work(State& state, Time now, Node& node) {
  if (node.outstanding > 0) node.worked += now - std::exchange(node.busy_since, now);
  if (node.worked + node.lost > Duration{}) {
    state.money.book.on_work(node.instance.id, for_the_cloud(state, node.worked),
                             for_the_cloud(state, node.lost));
  }
}

void dismiss_when_done(State& state, Effects& effects, Time now, Node& node) {
  if (!state.money.draining || state.phase != Phase::running) return;
  if (node.state == NodeState::ready && node.outstanding > 0) return;
  if (node.state != NodeState::gone) {
    return_tasks(state, effects, now, node, *state.abandoned);
    dismiss(state, effects, now, node);
  }
  if (std::ranges::none_of(state.nodes, is_alive)) start_closing(state, effects, now);
}

void look_at_budget(State& state, Effects& effects, Time now) {
  Money& money = state.money;
  money.look_at = kNever;
  if (!state.spec.budget || !has_machines(state.phase)) return;
  const Time end = money_lasts_until(state, money.book, now);
  if (end == kNever) return;
  const Time stop_at = end - stopping_time(state);
  const Time drain_at = stop_at - draining_time(state);
  const double share = to_dollars(cost_now(state, now).total) / *state.spec.budget;
  if (share >= kWarnAtShare || now >= drain_at - by_our_clock(state, kWarnAhead))
    warn(state, effects, now, drain_at);
  if (now >= stop_at || (now >= drain_at && state.phase == Phase::starting)) {
    const Error why = spent_error(state, now);
    if (!state.abandoned) state.abandoned = why;
    if (state.phase == Phase::starting) {
      fail_open(state, effects, now, why);
    } else {
      start_closing(state, effects, now);
    }
    return;
  }
  if (now >= drain_at && !money.draining) start_draining(state, effects, now);
  if (!has_machines(state.phase)) return;
  // For the worst, a price is what it might have become since the cloud was asked.
  if (drain_at - now < 2 * kBudgetLook) {
    const Time again = money.told_by_cloud_at + kBudgetLook;
    if (again <= now) {
      ask_cloud(state, effects, now);
    } else if (state.options.charges_interval > Duration{}) {
      money.ask_at = std::min(money.ask_at, again);
    }
  }
  money.look_at = std::min(now + kBudgetLook, now < drain_at ? drain_at : stop_at);
}

void ask_cloud(State& state, Effects& effects, Time now) {
  Money& money = state.money;
  money.ask_at = kNever;
  if (state.options.charges_interval <= Duration{} || !state.prepared) return;
  const bool last = state.phase == Phase::removing || state.phase == Phase::moving;
  if (!last && !has_machines(state.phase)) return;
  if (!last) money.ask_at = now + state.options.charges_interval;
  std::vector<InstanceId> bills = money.book.open_bills();
  // At the end also of machines that are in no book yet: launches that came to nothing cost, too.
  if (bills.empty() && !(last && money.book.asked_for_any())) return;
  if (money.asking && !last) return;
  money.asking = true;
  effects.ask_charges(std::move(bills));
}

void on_charges(State& state, Effects& effects, Time now, Result<std::vector<Charge>> charges) {
  state.money.asking = false;
  if (!charges) return;  // what was known goes on to hold, and the budget expects the worst
  state.money.told_by_cloud_at = now;
  state.money.book.on_charges(*charges, at_the_cloud(state, now));
  look_at_budget(state, effects, now);
}

void tell_cost(State& state, Effects& effects, Time now) {
  Money& money = state.money;
  if (!money.book.costs_anything() || now < money.told_at + kCostUpdateInterval) return;
  money.told_at = now;
  const CostNow cost = cost_now(state, now);
  effects.emit(CostUpdate{.elapsed_seconds = seconds(cost.elapsed),
                          .accumulated_cost = to_dollars(cost.total),
                          .hourly_rate = to_dollars(cost.hourly),
                          .spot_count = cost.spot_count,
                          .ondemand_count = cost.on_demand_count});
}

PoolCost cost_until(State& state, Time now) {
  for (Node& node : state.nodes) note_work(state, now, node);
  const CostBook& book = state.money.book;
  const CostSplit split = book.split(at_the_cloud(state, now));
  return {.total = to_dollars(split.total),
          .hourly = to_dollars(cost_now(state, now).hourly),
          .setup = to_dollars(split.setup),
          .useful = to_dollars(split.useful),
          .idle = to_dollars(split.idle),
          .lost = to_dollars(split.lost)};
}

void tell_final_cost(State& state, Effects& effects, Time now, PoolStopped& stopped) {
  const CostBook& book = state.money.book;
  if (!book.costs_anything()) return;
  const Time there = at_the_cloud(state, now);
  const auto by_node = book.by_node(there);
  for (NodeReceipt& receipt : stopped.nodes) {
    const auto found = by_node.find(receipt.node);
    if (found != by_node.end()) receipt.cost = to_dollars(found->second);
  }
  const CostNow cost = book.now(there);
  const CostSplit split = book.split(there);
  effects.emit(CostFinal{.total_cost = to_dollars(cost.total),
                         .total_seconds = seconds(cost.elapsed),
                         .hourly_rate = to_dollars(book.highest_hourly()),
                         .spot_count = book.machines(true),
                         .ondemand_count = book.machines(false),
                         .savings_vs_ondemand = to_dollars(cost.on_demand - cost.total),
                         .setup_cost = to_dollars(split.setup),
                         .useful_cost = to_dollars(split.useful),
                         .idle_cost = to_dollars(split.idle),
                         .lost_cost = to_dollars(split.lost)});
}

}  // namespace skyward::engine
