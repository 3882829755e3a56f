// How a pool opens: an offer is chosen, its region prepared, machines are asked for; where there
// are none, another region follows. See core.h for the idea.

#include <fmt/format.h>

#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::engine {
namespace {

void prepare_region(State& state, Effects& effects) {
  state.phase.set(Phase::preparing);
  effects.prepare(state.placement.offer());
}

}  // namespace

void on_open(State& state, Effects& effects, Time now) {
  state.phase.set(Phase::offering);
  state.opened_at = now;
  state.bills = BillPoll(state.options.charges_interval);
  if (state.spec.timeout > Duration{}) state.lifetime_ends = now + state.spec.timeout;
  effects.emit(InfraCreating{state.options.job_id});
  effects.list_offers();
}

void on_offers(State& state, Effects& effects, Time now, Result<std::vector<Offer>> offers) {
  if (state.phase != Phase::offering) return give_back_when_idle(state, effects);
  Placement& placement = state.placement;
  Result<Offer> offer = placement.choose(state.spec, std::move(offers));
  if (!offer) return fail_open(state, effects, now, offer.error());
  const Budget::Facts facts = budget_facts(state, state.opened_at);
  if (const Status paid = state.budget.check_offer(facts, *offer); !paid) {
    return fail_open(state, effects, now, placement.explain(paid.error()));
  }
  placement.take(*std::move(offer));
  state.costs.take_offer(state.options, placement.offer());
  if (!placement.is_prepared()) return prepare_region(state, effects);
  state.phase.set(Phase::moving);
  placement.move_out();
  state.bills.ask_last(effects, state.costs.book());
  effects.teardown();
}

void on_prepared(State& state, Effects& effects, Time now, Result<Cluster> cluster) {
  if (cluster) state.placement.on_prepared(*std::move(cluster));
  if (state.phase != Phase::preparing) return give_back_when_idle(state, effects);
  if (!cluster) return look_elsewhere(state, effects, now, cluster.error());
  state.phase.set(Phase::provisioning);
  const int count = static_cast<int>(state.nodes.size());
  effects.emit(InfraCreated{state.placement.cluster().region});
  if (auto other = state.placement.other_region(state.spec)) effects.emit(*std::move(other));
  effects.emit(InstanceLaunching{count, state.placement.offer().instance_type,
                                 provider_label(state.spec.provider.name)});
  buy(state, effects, now, count, NodeId{0});
}

void look_elsewhere(State& state, Effects& effects, Time now, Error why) {
  const std::string text = why.message;
  if (auto failed = state.placement.refuse(std::move(why))) {
    return fail_open(state, effects, now, *std::move(failed));
  }
  effects.emit(ErrorEvent{text + "; asking elsewhere", std::nullopt});
  state.phase.set(Phase::offering);
  effects.list_offers();
}

void on_moved_out(State& state, Effects& effects, Time now, const Status& removed) {
  state.placement.on_moved_out(removed);
  if (state.phase != Phase::moving) return;
  if (removed) return prepare_region(state, effects);
  Error why = state.placement.explain(removed.error());
  why.message += "; " + removed.error().message;
  fail_open(state, effects, now, std::move(why));
}

}  // namespace skyward::engine
