#include "skyward/engine/core_spend.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "skyward/engine/core_close.h"
#include "skyward/engine/core_loss.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::engine {
namespace {

constexpr Duration kLeastLook = 20ms;  // at the budget, where a simulated cloud's time flies

void start_draining(EngineState& state, EngineEffects& effects, Time now) {
  state.budget.drain();
  effects.stop_launching();
  const Error why = state.budget.spent(budget_facts(state, now));
  effects.emit(ErrorEvent{why.message, std::nullopt});
  state.tasks.abandon(effects, why);
  // With one request: each that is pending delays the last one.
  std::vector<InstanceId> idle = state.releases.take_held();
  for (const Node& node : state.nodes) {
    if (const auto successor = state.orders.take_successor(node.id)) {
      effects.emit(InstanceStopping{successor->id});
      idle.push_back(successor->id);
    }
    if (node.state == NodeState::ready) state.tasks.recall(effects, node.id);
    std::ranges::move(dismiss_if_idle(state, effects, now, node), std::back_inserter(idle));
  }
  if (!idle.empty()) state.releases.release(effects, std::move(idle));
  if (!state.nodes.any_alive()) start_closing(state, effects, now);
}

// To what still runs.
void give_notice(EngineState& state, EngineEffects& effects, Time now, Time stop_at) {
  state.budget.note_notice();
  const auto left_ms = static_cast<std::uint64_t>(std::max(stop_at - now, Duration{}) / 1ms);
  for (const Node& node : state.nodes) {
    if (node.state != NodeState::ready) continue;
    effects.send(node.id, wire::EndAhead{left_ms, "the pool's budget is spent"});
  }
}

// Machines may cost money: while they are launched, nobody knows how many are there.
bool may_cost(Phase phase) { return phase == Phase::provisioning || has_machines(phase); }

// The budget is spent.
void stop_spending(EngineState& state, EngineEffects& effects, Time now) {
  const Budget::Facts facts = budget_facts(state, now);
  const Error why =
      state.phase == Phase::provisioning ? state.budget.outlived(facts) : state.budget.spent(facts);
  if (!state.tasks.abandoned()) state.tasks.refuse(why);
  if (is_opening(state.phase)) {
    fail_open(state, effects, now, why);
  } else {
    start_closing(state, effects, now);
  }
}

}  // namespace

void begin_to_pay(EngineState& state, EngineEffects& effects, Time now) {
  state.bills.start(now);
  if (state.costs.book().costs_anything() && state.options.cost_interval > Duration{}) {
    state.tell_cost_at = std::min(state.tell_cost_at, now + state.options.cost_interval);
  }
  act_on_budget(state, effects, now);
  if (state.phase != Phase::starting) return;
  if (const Status paid = state.budget.check_rate(budget_facts(state, now)); !paid) {
    fail_open(state, effects, now, paid.error());
  }
}

void act_on_budget(EngineState& state, EngineEffects& effects, Time now) {
  if (!may_cost(state.phase)) return state.budget.unschedule();
  if (state.budget.awaits_bills(now)) return;
  Budget::Judgement judgement = state.budget.judge(effects, budget_facts(state, now));
  if (judgement.stop_at == kNever) return;
  const bool drain = judgement.verdict == Budget::Verdict::drain;
  if (judgement.verdict == Budget::Verdict::stop || (drain && state.phase == Phase::starting)) {
    return stop_spending(state, effects, now);
  }
  if (drain && state.phase != Phase::provisioning && !state.budget.is_draining()) {
    start_draining(state, effects, now);
    if (!has_machines(state.phase)) return;
    // What is released now leaves more for the rest: its end is known when that is answered.
    if (!state.releases.is_done()) judgement.notice_at = judgement.late_notice_at;
  }
  const bool is_time = state.budget.is_draining() && now >= judgement.notice_at;
  if (is_time && !state.budget.has_given_notice())
    give_notice(state, effects, now, judgement.stop_at);
  // For the worst, a price is what it might have become since the cloud was asked.
  const Duration pause = std::max(state.costs.clock().to_local(kBudgetLook), kLeastLook);
  if (std::min(judgement.warn_at, judgement.drain_at) - now < 2 * pause) {
    state.bills.ask_often(effects, now, state.costs.book(), pause);
  }
  state.budget.schedule(now, judgement, pause);
}

void tell_cost(EngineState& state, EngineEffects& effects, Time now) {
  state.tell_cost_at = kNever;
  if (!has_machines(state.phase)) return;
  const Time due = state.costs.told_at() + state.options.cost_interval;
  if (due <= now) state.costs.tell(effects, now);
  state.tell_cost_at = due > now ? due : now + state.options.cost_interval;
}

void on_clocks(EngineState& state, EngineEffects& effects, Time now, Time cloud_now) {
  const Duration asleep = state.costs.clock().read(now, cloud_now);
  if (asleep == Duration{}) return;
  // The timers of rented machines count from the opening, and went on meanwhile.
  if (state.lifetime_ends != kNever && provider_rents(state.spec.provider.name)) {
    state.lifetime_ends -= state.costs.clock().to_local(asleep);
  }
  if (!has_machines(state.phase)) return;
  ask_for_bills(state, effects, now);
  // The answer tells what changing prices came to, or which machines have ended: the budget waits
  // for it, unless the provider is busy for long, with a launch, say.
  const bool is_told = state.costs.book().prices_may_change() || state.options.billing.tells_ends;
  if (is_told && state.bills.is_asking()) {
    return state.budget.await_bills(now + 2 * kChargesTimeout);
  }
  act_on_budget(state, effects, now);
}

void ask_for_bills(EngineState& state, EngineEffects& effects, Time now) {
  if (!has_machines(state.phase)) return state.bills.stop();
  state.bills.ask(effects, now, state.costs.book());
}

void on_charges(EngineState& state, EngineEffects& effects, Time now,
                Result<std::vector<Charge>> charges) {
  state.bills.on_answer(now, charges.has_value());
  const bool awaited = state.budget.take_bills();
  if (charges) {
    state.costs.on_charges(now, *charges);
  } else if (state.costs.book().prices_may_change() && !awaited) {
    return;  // what was known goes on to hold, and the budget expects the worst
  }
  act_on_budget(state, effects, now);
}

PoolCost cost_until(EngineState& state, Time now, Time cloud_now) {
  for (const Node& node : state.nodes) {
    state.costs.on_work(node.instance.id, state.tasks.work(now, node.id));
  }
  return state.costs.until(cloud_now);
}

}  // namespace skyward::engine
