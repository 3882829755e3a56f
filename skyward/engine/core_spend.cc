// What follows from what the pool costs: tasks are refused, machines go, the pool ends. The budget
// judges (budget.h).

#include <utility>

#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

void start_draining(State& state, Effects& effects, Time now) {
  state.budget.drain();
  effects.stop_buying();
  const Error why = state.budget.spent(budget_facts(state, now));
  effects.emit(ErrorEvent{why.message, std::nullopt});
  state.tasks.abandon(effects, why);
  for (Node& node : state.nodes) {
    if (node.successor) {
      const InstanceId id = std::exchange(node.successor, {})->id;
      effects.emit(InstanceStopping{id});
      state.releases.release(effects, {id});
    }
    if (node.state == NodeState::ready) state.tasks.recall(effects, node.id);
    dismiss_when_done(state, effects, now, node);
  }
}

// The budget is spent.
void stop_spending(State& state, Effects& effects, Time now) {
  const Error why = state.budget.spent(budget_facts(state, now));
  if (!state.tasks.abandoned()) state.tasks.refuse(why);
  if (state.phase == Phase::starting) {
    fail_open(state, effects, now, why);
  } else {
    start_closing(state, effects, now);
  }
}

}  // namespace

Budget::Facts budget_facts(const State& state, Time now) {
  return {.spec = state.spec,
          .options = state.options,
          .costs = state.costs,
          .offer = state.placement.offer(),
          .provisioning = state.provisioning,
          .terminating = state.releases.requests(),
          .mean_run = state.tasks.mean_run(),
          .now = now};
}

void note_work(State& state, Time now, Node& node) {
  state.costs.on_work(node.instance.id, state.tasks.work(now, node.id));
}

void dismiss_when_done(State& state, Effects& effects, Time now, Node& node) {
  if (!state.budget.is_draining() || state.phase != Phase::running) return;
  if (node.state == NodeState::ready && !state.tasks.is_idle(node.id)) return;
  if (node.state != NodeState::gone) {
    state.costs.on_work(node.instance.id,
                        state.tasks.lose_node(effects, now, node.id, *state.tasks.abandoned()));
    dismiss(state, effects, now, node);
  }
  if (std::ranges::none_of(state.nodes, is_alive)) start_closing(state, effects, now);
}

void begin_to_pay(State& state, Effects& effects, Time now) {
  state.bills.start(now);
  look_at_budget(state, effects, now);
  if (state.phase != Phase::starting) return;
  if (const Status paid = state.budget.check_rate(budget_facts(state, now)); !paid) {
    fail_open(state, effects, now, paid.error());
  }
}

void look_at_budget(State& state, Effects& effects, Time now) {
  if (!has_machines(state.phase)) return state.budget.stop_looking();
  const Budget::Look look = state.budget.look(effects, budget_facts(state, now));
  if (look.stop_at == kNever) return;
  const bool drain = look.verdict == Budget::Verdict::drain;
  if (look.verdict == Budget::Verdict::stop || (drain && state.phase == Phase::starting)) {
    return stop_spending(state, effects, now);
  }
  if (drain && !state.budget.is_draining()) start_draining(state, effects, now);
  if (!has_machines(state.phase)) return;
  // For the worst, a price is what it might have become since the cloud was asked.
  if (look.drain_at - now < 2 * kBudgetLook) {
    state.bills.ask_often(effects, now, state.costs.book());
  }
  state.budget.look_again(now, look);
}

void ask_for_bills(State& state, Effects& effects, Time now) {
  if (!has_machines(state.phase)) return state.bills.stop();
  state.bills.ask(effects, now, state.costs.book());
}

void on_charges(State& state, Effects& effects, Time now, Result<std::vector<Charge>> charges) {
  state.bills.on_answer(now, charges.has_value());
  if (!charges) return;  // what was known goes on to hold, and the budget expects the worst
  state.costs.on_charges(now, *charges);
  look_at_budget(state, effects, now);
}

PoolCost cost_until(State& state, Time now) {
  for (Node& node : state.nodes) note_work(state, now, node);
  return state.costs.until(now);
}

}  // namespace skyward::engine
