#include "skyward/engine/core_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "skyward/engine/core_close.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/loss.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::engine {
namespace {

std::string after_replacements(const EngineState& state, const Node& node) {
  const int replacements = state.orders[node.id].replacements;
  if (replacements == 0) return {};
  return fmt::format(" after {} replacement{}", replacements, replacements > 1 ? "s" : "");
}

Error not_started(const EngineState& state, const Node& node, Error why) {
  if (why.message.find(node.instance.id) == std::string::npos) {
    why.message = fmt::format("node {} ({}, {}) did not start{}: {}", node.id.value,
                              provider_label(state.spec.provider.name), node.instance.id,
                              after_replacements(state, node), why.message);
  }
  return why;
}

// Before the pool has opened, it does not open then.
void fail_open_with(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                    Error why) {
  state.nodes.give_up(node.id, now);
  fail_open(state, effects, now, not_started(state, node, std::move(why)));
}

// No machine comes for the node any more; without any node, no task can run, and the pool closes.
void give_up_node(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                  const Error& why) {
  if (state.phase == Phase::starting) {
    Error both = why;
    if (const std::string& lost = state.orders[node.id].lost_at_opening; why.message != lost)
      both.message = fmt::format("{}; no replacement: {}", lost, why.message);
    return fail_open_with(state, effects, now, node, std::move(both));
  }
  state.nodes.give_up(node.id, now);
  effects.emit(ErrorEvent{fmt::format("giving up on node {}{}: {}", node.id.value,
                                      after_replacements(state, node), why.message),
                          node.instance.id});
  Error lost{
      why.kind == ErrorKind::over_budget || why.kind == ErrorKind::unreachable ? why.kind
                                                                               : ErrorKind::lost,
      fmt::format("node {} was lost and could not be replaced: {}", node.id.value, why.message),
      {}};
  if (lost.kind == ErrorKind::lost) lost = with_loss(std::move(lost), {node.is_preempted()});
  if (!state.nodes.all_in(NodeState::gone)) {
    return state.tasks.give_up_node(effects, node.id, lost);
  }
  state.tasks.abandon(effects, lost);
  start_closing(state, effects, now);
}

// Provisions a machine for a node that has none if the budget allows it; otherwise gives up on the
// node. If machines that are still ending make it too expensive, it waits until they are gone.
void ask_replacement(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  const Budget::Facts facts = budget_facts(state, now);
  if (const Status paid = state.budget.check_machine(facts); !paid) {
    return give_up_node(state, effects, now, node, paid.error());
  }
  if (const Status within = state.budget.check_rate_with_another(facts); !within) {
    if (auto held = state.releases.take_held(); !held.empty()) {
      state.releases.release(effects, std::move(held));
    }
    if (state.releases.requests() > 0 || state.orders.requests() > 0 ||
        state.releases.may_still_end()) {
      return state.orders.wait_for_rate(node.id);
    }
    return give_up_node(state, effects, now, node, within.error());
  }
  state.costs.on_asked(now, node.id, 1);
  state.orders.request_replacement(effects, node.id);
}

// `by_notice`: the machine stands, but its cloud takes it back soon. Where that makes it free, it
// is not terminated before.
void release_machine(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                     bool by_notice) {
  const InstanceId machine = state.nodes.take_machine(node.id);
  effects.emit(InstanceStopping{machine});
  if (by_notice && node.gone_at > now &&
      state.costs.is_free_if_taken_back(now, machine, node.gone_at)) {
    return state.releases.hold(machine, node.gone_at);
  }
  state.releases.release(effects, {machine});
}

// False: no machine waits for the end of the present one.
bool connect_successor(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  auto successor = state.orders.take_successor(node.id);
  if (!successor) return false;
  state.nodes.launch(node.id, *std::move(successor), now, now + state.options.greet_timeout);
  state.nodes.connect(effects, node.id);
  return true;
}

void replace_node(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                  bool was_ready, bool ran_nothing, const Error& why) {
  effects.emit(
      ErrorEvent{fmt::format("node {} was lost: {}; replacing it", node.id.value, why.message),
                 node.instance.id});
  // While the pool opens, the notice itself is the loss.
  const bool by_notice = state.phase == Phase::starting && node.is_preempted();
  release_machine(state, effects, now, node, by_notice);
  if (state.orders[node.id].awaits_successor) return;
  if (connect_successor(state, effects, now, node)) return;
  const int replacements = state.orders[node.id].replacements;
  // Where workers end on one machine after the other, whichever the node, it is the image.
  const int of_all_nodes = ran_nothing ? state.ran_nothing - 1 : 0;
  if (std::max(replacements, of_all_nodes) >= static_cast<int>(kMaxNodeReplacements)) {
    return give_up_node(state, effects, now, node, why);
  }
  // One that failed is not followed at once: the way there may be closed for a moment.
  if (!was_ready && replacements > 0) {
    return state.nodes.pause(node.id, now + replacements * kReplacementPause);
  }
  ask_replacement(state, effects, now, node);
}

// Whether a cloud that has refused a machine for this may have one a little later.
bool may_pass(ErrorKind kind) {
  return kind == ErrorKind::exhausted || kind == ErrorKind::unavailable ||
         kind == ErrorKind::timeout;
}

int most_lost_at_opening(const EngineState& state) {
  return std::max(static_cast<int>(kMaxNodeReplacements), static_cast<int>(state.nodes.size()) / 2);
}

// Whether a machine that is lost while the pool opens is replaced: if it is gone, or if a cloud's
// machine is not reached where others are. After a setup that failed, another one would fail, too;
// where many are lost, it is not the machines.
bool is_replaced_at_opening(const EngineState& state, const Node& lost, const Error& why) {
  if (state.phase != Phase::starting || state.lost_at_opening >= most_lost_at_opening(state)) {
    return false;
  }
  const bool is_reached = lost.state != NodeState::connecting;
  const bool is_setup = why.kind == ErrorKind::unavailable || why.kind == ErrorKind::invalid ||
                        why.kind == ErrorKind::unsupported;
  if (is_reached) return !is_setup;
  if (why.kind != ErrorKind::lost && why.kind != ErrorKind::unreachable) return false;
  const ProviderSheet* sheet = find_provider_sheet(state.spec.provider.name);
  return (sheet == nullptr || sheet->rents) &&
         std::ranges::any_of(state.nodes, [](const Node& node) {
           return node.state == NodeState::bootstrapping || node.state == NodeState::ready;
         });
}

}  // namespace

void note_loss(EngineState& state, Time now, const Node& node) {
  const bool steady = node.state == NodeState::ready && now - node.ready_at >= kSteadyTime;
  state.orders.on_loss(node.id, steady);
}

void on_node_lost(EngineState& state, EngineEffects& effects, Time now, NodeId id, Error why,
                  bool ran_nothing) {
  const Node& node = state.nodes[id];
  if (!node.is_alive()) return;
  if (node.state == NodeState::stopping) {  // as it should be
    if (state.phase == Phase::running) return hand_over(state, effects, now, node);
    state.nodes.give_up(id, now);
    return release_machines(state, effects);
  }
  // Machines end by their cloud's clock, which may be ahead of ours: this was not a loss.
  if (has_machines(state.phase) && state.costs.clock().at(now) >= state.lifetime_ends_by_cloud) {
    state.nodes.give_up(id, now);
    return end_lifetime(state, effects, now);
  }
  if (node.is_preempted() && state.phase == Phase::running) {
    why.message += "; the cloud had announced its preemption";
    // One that cannot be reached may run until its time is up.
    if (why.kind == ErrorKind::lost) why = with_loss(std::move(why), {.preempted = true});
  }
  if (state.phase != Phase::running && !is_replaced_at_opening(state, node, why)) {
    return fail_open_with(state, effects, now, node, std::move(why));
  }
  note_loss(state, now, node);
  if (state.phase == Phase::starting) {
    state.orders.on_loss_at_opening(id, why.message);
    if (state.lost_at_opening++ == 0) state.opening_ends = now + kOpeningWithLosses;
  }
  const bool was_ready = node.state == NodeState::ready;
  state.nodes.lose(id, now);
  state.costs.on_work(node.instance.id, state.tasks.lose_node(effects, now, id, why));
  if (!state.budget.is_draining()) {
    return replace_node(state, effects, now, node, was_ready, ran_nothing, why);
  }
  effects.emit(
      ErrorEvent{fmt::format("node {} was lost: {}; the budget does not cover a replacement",
                             node.id.value, why.message),
                 node.instance.id});
  dismiss_when_done(state, effects, now, node);
}

void hand_over(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  state.nodes.lose(node.id, now);
  if (state.budget.is_draining()) return dismiss_when_done(state, effects, now, node);
  release_machine(state, effects, now, node, /*by_notice=*/true);
  connect_successor(state, effects, now, node);
}

void end_opening(EngineState& state, EngineEffects& effects, Time now) {
  state.opening_ends = kNever;
  if (state.phase != Phase::starting) return;
  for (const Node& node : state.nodes) {
    const std::string& lost = state.orders[node.id].lost_at_opening;
    if (node.state == NodeState::ready || lost.empty()) continue;
    return fail_open(state, effects, now,
                     not_started(state, node,
                                 {ErrorKind::timeout,
                                  fmt::format("{}; no replacement was ready within {:.0f} min",
                                              lost, seconds(kOpeningWithLosses) / 60),
                                  {}}));
  }
}

void on_late(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  auto kind = ErrorKind::lost;
  std::string text;
  switch (node.state) {
    case NodeState::connecting:
      text = fmt::format("its agent sent no greeting within {:.0f} s",
                         seconds(state.options.greet_timeout));
      if (!node.unreached.empty()) text += ": " + node.unreached;
      break;
    case NodeState::bootstrapping:
      kind = ErrorKind::unavailable;
      text = fmt::format("it was not ready within {:.0f} s", seconds(kBootstrapTimeout));
      break;
    case NodeState::ready:
      text = node.gone_at <= now ? std::string("its time is up")
                                 : fmt::format("no message from it for {:.1f} s",
                                               seconds(state.options.heartbeat_timeout));
      break;
    case NodeState::absent:
      if (state.budget.is_draining()) return dismiss_when_done(state, effects, now, node);
      return ask_replacement(state, effects, now, node);
    case NodeState::stopping:
      if (state.phase != Phase::running) return;
      tell_cut_off(effects, {fmt::to_string(node.id.value)});
      effects.disconnect(node.id);
      return hand_over(state, effects, now, node);
    case NodeState::gone:
      return;
  }
  effects.disconnect(node.id);
  on_node_lost(state, effects, now, node.id, {kind, std::move(text), {}});
}

void on_refused(EngineState& state, EngineEffects& effects, Time now, NodeId id, bool is_successor,
                const Error& why) {
  const Node& node = state.nodes[id];
  state.orders.on_refusal(id);
  const auto tell = [&](const std::string& next) {
    effects.emit(ErrorEvent{
        fmt::format("no replacement for node {} yet: {}; {}", node.id.value, why.message, next),
        node.instance.id});
  };
  if (is_successor && node.is_alive()) return tell("retrying when its machine is gone");
  const int refusals = state.orders[id].refusals;
  const int most = state.phase == Phase::starting ? kMaxRefusalsAtOpening : kMaxRefusals;
  if (!may_pass(why.kind) || refusals > most || state.budget.is_draining()) {
    return give_up_node(state, effects, now, node, why);
  }
  const Duration pause = kRefusalPause * (1 << (refusals - 1));
  tell(fmt::format("retrying in {:.0f} s", seconds(pause)));
  state.nodes.pause(id, now + pause);
}

void replace_what_waited(EngineState& state, EngineEffects& effects, Time now) {
  if (!has_machines(state.phase) || state.budget.is_draining()) return;
  for (const NodeId id : state.orders.take_waiting()) {
    const Node& node = state.nodes[id];
    if (node.state == NodeState::absent) ask_replacement(state, effects, now, node);
  }
}

void unmount(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  state.nodes.shut_down(effects, node.id, now,
                        std::min(now + closing_time(state.spec), node.gone_at));
}

std::vector<InstanceId> dismiss_if_idle(EngineState& state, EngineEffects& effects, Time now,
                                        const Node& node) {
  if (node.state == NodeState::ready && !state.tasks.is_idle(node.id)) return {};
  if (node.state == NodeState::gone || node.state == NodeState::stopping) return {};
  const Error& why = *state.tasks.abandoned();
  state.costs.on_work(node.instance.id, state.tasks.lose_node(effects, now, node.id, why));
  if (node.state == NodeState::ready && !state.spec.volumes.empty()) {
    unmount(state, effects, now, node);
    return {};
  }
  state.nodes.dismiss(effects, node.id, now);
  std::vector<InstanceId> machines = take_machines(state, node.id);
  for (const InstanceId& machine : machines) effects.emit(InstanceStopping{machine});
  return machines;
}

void dismiss_when_done(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  if (!state.budget.is_draining() || state.phase != Phase::running) return;
  std::vector<InstanceId> machines = dismiss_if_idle(state, effects, now, node);
  if (!machines.empty()) state.releases.release(effects, std::move(machines));
  if (!state.nodes.any_alive()) start_closing(state, effects, now);
}

}  // namespace skyward::engine
