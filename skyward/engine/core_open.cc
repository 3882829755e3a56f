#include "skyward/engine/core_open.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/base/text.h"
#include "skyward/engine/configuration.h"
#include "skyward/engine/core_close.h"
#include "skyward/engine/core_loss.h"
#include "skyward/engine/core_preempt.h"
#include "skyward/engine/core_spend.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/wire/codec.h"

namespace skyward::engine {
namespace {

void prepare_region(EngineState& state, EngineEffects& effects) {
  state.phase.set(Phase::preparing);
  effects.prepare(state.placement.offer());
}

// The chosen region has no machines: others are asked, or opening fails.
void look_elsewhere(EngineState& state, EngineEffects& effects, Time now, Error why) {
  const std::string text = why.message;
  if (auto failed = state.placement.refuse(std::move(why))) {
    return fail_open(state, effects, now, *std::move(failed));
  }
  effects.emit(ErrorEvent{text + "; asking elsewhere", std::nullopt});
  state.phase.set(Phase::offering);
  effects.list_offers();
}

// Announces a machine that was provisioned for the node.
void announce_instance(const EngineState& state, EngineEffects& effects, const Node& node,
                       const Instance& instance) {
  const Offer& offer = state.placement.offer();
  effects.emit(InstanceProvisioned{
      .instance_id = instance.id,
      .node = static_cast<int>(node.id.value),
      .spot = instance.spot,
      .provider = provider_label(state.spec.provider.name),
      .ip = instance.private_ip,
      .instance_type =
          instance.instance_type.empty() ? offer.instance_type : instance.instance_type,
      .price_on_demand =
          instance.price_on_demand ? instance.price_on_demand : offer.price_on_demand,
      .price_spot = instance.price_spot ? instance.price_spot : offer.price_spot,
      .billing_increment_minutes = offer.billing_increment_minutes > 0
                                       ? std::optional(offer.billing_increment_minutes)
                                       : std::nullopt});
}

// Machines that came too late.
void release_launched(EngineState& state, EngineEffects& effects,
                      const std::vector<Instance>& instances) {
  std::vector<InstanceId> ids;
  for (const Instance& instance : instances) ids.push_back(instance.id);
  state.releases.release(effects, std::move(ids));
}

// Those that cost too much an hour beside the others go at once.
void keep_within_rate(EngineState& state, EngineEffects& effects, Time now,
                      Result<std::vector<Instance>>& instances) {
  if (!instances) return;
  const Status within = state.budget.check_rate(budget_facts(state, now));
  if (within) return;
  release_launched(state, effects, *instances);
  instances = fail(within);
}

// No machines came.
void on_none(EngineState& state, EngineEffects& effects, Time now, NodeId first_node,
             bool is_successor, const Error& why) {
  if (state.phase == Phase::provisioning) return look_elsewhere(state, effects, now, why);
  if (!has_machines(state.phase)) return release_machines(state, effects);
  on_refused(state, effects, now, first_node, is_successor, why);
  replace_what_waited(state, effects, now);
}

// Nobody waits for the machines any more.
void on_too_late(EngineState& state, EngineEffects& effects, NodeId first_node,
                 std::vector<Instance> instances) {
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    const NodeId node{first_node.value + i};
    if (state.nodes[node].launched) {
      state.orders.keep_successor(node, std::move(instances[i]));
    } else {
      state.nodes.keep(node, std::move(instances[i]));
    }
  }
  release_machines(state, effects);
}

// Each machine takes its node's place, or will when the present one is done.
void on_machines(EngineState& state, EngineEffects& effects, Time now, NodeId first_node,
                 std::vector<Instance> instances) {
  ProvisioningCompleted completed{.spot = 0,
                                  .on_demand = 0,
                                  .provider = provider_label(state.spec.provider.name),
                                  .region = state.placement.cluster().region,
                                  .instances = {}};
  std::vector<NodeId> launched;
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    const Node& node = state.nodes[NodeId{first_node.value + i}];
    completed.instances.push_back(instances[i].id);
    ++(instances[i].spot ? completed.spot : completed.on_demand);
    announce_instance(state, effects, node, instances[i]);
    if (node.is_alive()) {
      state.orders.keep_successor(node.id, std::move(instances[i]));
      retire_when_done(state, effects, now, node);
    } else {
      state.nodes.launch(node.id, std::move(instances[i]), now, now + state.options.greet_timeout);
      launched.push_back(node.id);
    }
  }
  if (state.phase == Phase::provisioning) {
    state.phase.set(Phase::starting);
    effects.emit(std::move(completed));
  }
  for (const NodeId node : launched) state.nodes.connect(effects, node);
}

void open_node(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  if (!node.is_preempted()) {
    state.tasks.open_node(effects, now, node.id, node.slots,
                          {.instance = node.instance.id,
                           .address = node.instance.private_ip,
                           .port = node.peer_port,
                           .gives = true});
  }
  prepare_successor(state, effects, now, node);
}

// All nodes are ready.
void all_ready(EngineState& state, EngineEffects& effects, Time now) {
  state.phase.set(Phase::running);
  state.ready_at = now;
  std::uint32_t slots = 0;
  for (const Node& node : state.nodes) slots += node.slots;
  const double elapsed = seconds(now - state.opened_at);
  const int nodes = static_cast<int>(state.nodes.size());
  effects.emit(TaskPoolInitCompleted{nodes, static_cast<int>(slots), elapsed});
  effects.emit(ClusterSetupCompleted{nodes, elapsed});
  effects.emit(PoolStarted{});
  state.ready_told = true;
  effects.opened({});
  state.tasks.open({.max_tasks_given = state.options.max_tasks_given,
                    .max_kept_function_bytes = state.options.max_kept_function_bytes,
                    .workers_per_node = state.options.workers_per_node,
                    .agents_talk = !state.options.peer_key.empty(),
                    .tell_starts = state.spec.collect_tasks});
  for (const Node& node : state.nodes) open_node(state, effects, now, node);
}

// Says that a machine has fewer GPUs than were asked for, and are paid for.
void tell_missing_gpus(const EngineState& state, EngineEffects& effects, const Node& node,
                       const wire::Ready& ready) {
  const std::optional<Accelerator>& asked = state.spec.accelerator;
  if (!asked || !is_nvidia(asked->name)) return;
  if (!state.options.real_devices || ready.devices_unknown) return;
  const std::size_t found = ready.accelerators.size();
  if (static_cast<double>(found) >= asked->count) return;
  effects.emit(Notice{
      .message = fmt::format("node {}: {} was asked for, but nvidia-smi finds {}{}{}",
                             node.id.value, to_string(*asked),
                             found == 0   ? "no GPU"
                             : found == 1 ? "1 GPU"
                                          : fmt::format("{} GPUs", found),
                             ready.device_error.empty() ? "" : ": ", to_utf8(ready.device_error)),
      .level = "warning",
      .instance_id = node.instance.id});
}

// Whether it is about to rent machines that have no network among them.
bool rents_apart(const EngineState& state) {
  return !state.options.private_network && state.nodes.size() > 1 &&
         provider_rents(state.spec.provider.name);
}

}  // namespace

void on_open(EngineState& state, EngineEffects& effects, Time now) {
  SKYWARD_CHECK(state.phase == Phase::idle);
  state.phase.set(Phase::offering);
  state.opened_at = now;
  state.bills = BillPoll(state.options.charges_interval);
  if (state.spec.timeout > Duration{}) {
    state.lifetime_ends = now + state.spec.timeout;
    state.lifetime_ends_by_cloud = state.costs.clock().at(now) + state.spec.timeout;
  }
  effects.emit(InfraCreating{state.options.job_id});
  effects.list_offers();
}

void on_offers(EngineState& state, EngineEffects& effects, Time now,
               Result<std::vector<Offer>> offers) {
  if (state.phase != Phase::offering) return release_machines(state, effects);
  Placement& placement = state.placement;
  Result<Offer> offer = placement.choose(state.spec, std::move(offers), [&](const Offer& one) {
    return state.budget.check_offer(budget_facts(state, now), one);
  });
  if (!offer) return fail_open(state, effects, now, offer.error());
  placement.take(*std::move(offer));
  state.costs.take_offer(state.spec, state.options, placement.offer());
  if (!placement.is_prepared()) return prepare_region(state, effects);
  state.phase.set(Phase::moving);
  placement.move_out();
  state.bills.ask_last(effects, state.costs.book());
  effects.teardown();
}

void on_prepared(EngineState& state, EngineEffects& effects, Time now, Result<Cluster> cluster) {
  if (cluster) state.placement.on_prepared(*std::move(cluster));
  if (state.phase != Phase::preparing) return release_machines(state, effects);
  if (!cluster) return look_elsewhere(state, effects, now, cluster.error());
  // Once more: the cost of a launch that failed elsewhere may be known only now.
  const Placement& placement = state.placement;
  const Status paid = state.budget.check_offer(budget_facts(state, now), placement.offer());
  if (!paid) return fail_open(state, effects, now, placement.explain_with(paid.error()));
  state.phase.set(Phase::provisioning);
  const int count = static_cast<int>(state.nodes.size());
  effects.emit(InfraCreated{.region = state.placement.cluster().region,
                            .unattended = state.placement.cluster().unattended});
  if (auto other = state.placement.other_region(state.spec)) effects.emit(*std::move(other));
  if (rents_apart(state)) {
    effects.emit(Notice{
        .message = fmt::format("nodes at {} have no network of their own: distributed calls fail{}",
                               provider_label(state.spec.provider.name),
                               state.options.peer_key.empty()
                                   ? ", and large arguments go from this computer to each node"
                                   : "")});
  }
  effects.emit(InstanceLaunching{count, state.placement.offer().instance_type,
                                 provider_label(state.spec.provider.name)});
  state.costs.on_asked(now, NodeId{0}, count);
  state.orders.request(effects, NodeId{0}, count);
  act_on_budget(state, effects, now);
}

void on_provisioned(EngineState& state, EngineEffects& effects, Time now, NodeId first_node,
                    int count, Result<std::vector<Instance>> instances) {
  const bool is_successor = state.orders.on_answered(first_node);
  const Time asked = state.costs.on_answered(now, first_node);
  if (instances) {
    for (std::uint32_t i = 0; i < instances->size(); ++i) {
      state.costs.on_launched(asked, NodeId{first_node.value + i}, (*instances)[i]);
    }
  }
  const bool replaces = has_machines(state.phase);
  if (replaces && state.budget.is_draining()) {
    if (instances) release_launched(state, effects, *instances);
    return;
  }
  if (replaces) keep_within_rate(state, effects, now, instances);
  if (!instances) {
    // Some may have been launched and released again. While the pool opens, ask_last() asks.
    ask_for_bills(state, effects, now);
    return on_none(state, effects, now, first_node, is_successor, instances.error());
  }
  SKYWARD_CHECK(static_cast<int>(instances->size()) == count);
  if (!replaces && state.phase != Phase::provisioning) {
    return on_too_late(state, effects, first_node, *std::move(instances));
  }
  on_machines(state, effects, now, first_node, *std::move(instances));
  begin_to_pay(state, effects, now);
  replace_what_waited(state, effects, now);
}

void on_joined(EngineState& state, EngineEffects& effects, Time now, NodeId id, NodeSetup setup) {
  if (!state.nodes.join(id, now, setup.reached_at.value_or(now))) return;
  effects.emit(BootstrapStarting{state.nodes[id].instance.id});
  wire::Configure configure = configuration(state, now, state.nodes[id], std::move(setup));
  if (const Status fits = wire::check_limits(configure); !fits) {
    effects.disconnect(id);
    return on_node_lost(state, effects, now, id, fits.error());
  }
  effects.send(id, std::move(configure));
  if (!state.nodes[id].replaced.empty()) tell_peers(state, effects, state.nodes[id]);
}

void on_ready(EngineState& state, EngineEffects& effects, Time now, const Node& node,
              const wire::Ready& ready) {
  if (node.state != NodeState::bootstrapping) return;
  const std::uint32_t slots =
      std::min(state.options.workers_per_node * static_cast<std::uint32_t>(state.spec.concurrency),
               state.options.max_tasks_given);
  state.nodes.on_ready(effects, node.id, now, slots, ready, state.orders[node.id].replacements,
                       now + state.options.heartbeat_timeout);
  state.costs.on_ready(now, node.instance.id);
  tell_missing_gpus(state, effects, node, ready);
  if (state.phase == Phase::running) return open_node(state, effects, now, node);
  if (state.nodes.all_in(NodeState::ready)) all_ready(state, effects, now);
}

void on_moved_out(EngineState& state, EngineEffects& effects, Time now, const Status& removed) {
  state.placement.on_moved_out(removed);
  if (removed) state.costs.on_all_gone(now);
  if (state.phase != Phase::moving) return;
  if (removed) return prepare_region(state, effects);
  fail_open(state, effects, now, state.placement.explain_with(removed.error()));
}

}  // namespace skyward::engine
