#include "skyward/engine/nodes.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/effects.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"

namespace skyward::engine {
namespace {

// The documented steps of a bootstrap, in order. "volumes" only where there are some.
constexpr std::array<std::string_view, 5> kSteps = {"uv", "apt", "deps", "skyward", "server"};

void add_up_time(Node& node, Time now) {
  if (node.state == NodeState::ready) node.up_seconds += seconds(now - node.ready_at);
}

}  // namespace

bool may_follow(NodeState from, NodeState to) {
  using enum NodeState;
  switch (from) {
    case absent:
      return to == connecting || to == gone;
    case connecting:
      return to == bootstrapping || to == absent || to == gone;
    case bootstrapping:
      return to == ready || to == stopping || to == absent || to == gone;
    case ready:
      return to == stopping || to == absent || to == gone;
    case stopping:
      return to == absent || to == gone;
    case gone:
      return false;
  }
  return false;
}

Nodes::Nodes(int count) : nodes_(static_cast<std::size_t>(count)) {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) nodes_[i].id = NodeId{i};
}

Node& Nodes::at(NodeId node) {
  SKYWARD_CHECK(node.value < nodes_.size(), "node {}", node.value);
  return nodes_[node.value];
}

void Nodes::set_state(Node& node, NodeState next) {
  SKYWARD_CHECK(may_follow(node.state, next), "node {}: {} after {}", node.id.value,
                static_cast<int>(next), static_cast<int>(node.state));
  node.state = next;
}

void Nodes::set_deadline(Node& node, Time deadline) {
  node.deadline = deadline;
  if (deadline != kNever) alarms_.push({deadline, node.id});
}

bool Nodes::any_alive() const { return std::ranges::any_of(nodes_, &Node::is_alive); }

bool Nodes::all_in(NodeState state) const {
  return std::ranges::all_of(nodes_, [&](const Node& node) { return node.state == state; });
}

std::uint64_t Nodes::least_memory() const {
  std::optional<std::uint64_t> least;
  for (const Node& node : nodes_)
    if (node.state == NodeState::ready)
      least = std::min(least.value_or(node.memory_bytes), node.memory_bytes);
  return least.value_or(0);
}

// ----------------------------------------------------------------------------- a machine's way up

void Nodes::launch(NodeId id, Instance instance, Time now, Time deadline) {
  Node& node = at(id);
  node.instance = std::move(instance);
  node.launched = true;
  node.steps = 0;
  node.gone_at = kNever;
  set_state(node, NodeState::connecting);
  node.connecting_at = now;
  node.unreached.clear();
  node.prepared_at = {};
  set_deadline(node, deadline);
}

void Nodes::connect(EngineEffects& effects, NodeId id) { effects.connect(id, at(id).instance); }

void Nodes::note_unreached(NodeId node, std::string why) { at(node).unreached = std::move(why); }

void Nodes::keep(NodeId id, Instance instance) {
  Node& node = at(id);
  node.instance = std::move(instance);
  node.launched = true;
}

bool Nodes::join(NodeId id, Time now, Time reached_at) {
  Node& node = at(id);
  if (node.state != NodeState::connecting) return false;
  set_state(node, NodeState::bootstrapping);
  node.joined_at = now;
  node.reached_at = reached_at;
  node.last_heard = now;
  set_deadline(node, now + kBootstrapTimeout);
  return true;
}

// Those before it that had nothing to do are done with it.
void Nodes::on_step(EngineEffects& effects, NodeId id, Time now, std::string_view step) {
  Node& node = at(id);
  const auto found = std::ranges::find(kSteps, step);
  if (found == kSteps.end()) {
    effects.emit(BootstrapProgress{node.instance.id, std::string(step)});
  } else {
    const auto until = static_cast<std::size_t>(found - kSteps.begin()) + 1;
    for (; node.steps < until; ++node.steps) {
      effects.emit(BootstrapProgress{node.instance.id, std::string(kSteps[node.steps])});
    }
  }
  if (step != kSteps.back()) node.prepared_at = now;
}

void Nodes::on_ready(EngineEffects& effects, NodeId id, Time now, std::uint32_t slots,
                     const wire::Ready& ready, int replacements, Time deadline) {
  on_step(effects, id, now, kSteps.back());
  Node& node = at(id);
  const Time prepared = std::max(node.prepared_at, node.joined_at);
  effects.emit(BootstrapCompleted{.instance_id = node.instance.id,
                                  .connect_seconds = seconds(node.reached_at - node.connecting_at),
                                  .agent_seconds = seconds(node.joined_at - node.reached_at),
                                  .environment_seconds = seconds(prepared - node.joined_at),
                                  .workers_seconds = seconds(now - prepared)});
  set_state(node, NodeState::ready);
  node.ready_at = now;
  node.slots = slots;
  node.peer_port = ready.peer_port;
  node.memory_bytes = ready.memory_bytes;
  set_deadline(node, deadline);
  if (!node.replaced.empty()) {
    effects.emit(InstanceReplaced{std::exchange(node.replaced, {}), node.instance.id,
                                  static_cast<int>(id.value), replacements});
  }
}

void Nodes::preempt(NodeId id, Time gone_at) {
  Node& node = at(id);
  node.gone_at = gone_at;
  if (node.state == NodeState::ready) set_deadline(node, std::min(node.deadline, gone_at));
}

// ------------------------------------------------------------------------------------ its end

void Nodes::lose(NodeId id, Time now) {
  Node& node = at(id);
  add_up_time(node, now);
  set_state(node, NodeState::absent);
}

InstanceId Nodes::take_machine(NodeId id) {
  Node& node = at(id);
  if (node.replaced.empty()) node.replaced = node.instance.id;
  node.launched = false;
  node.deadline = kNever;
  return node.instance.id;
}

void Nodes::pause(NodeId node, Time until) { set_deadline(at(node), until); }

std::optional<InstanceId> Nodes::take_last_machine(NodeId id) {
  Node& node = at(id);
  if (!std::exchange(node.launched, false)) return std::nullopt;
  return node.instance.id;
}

void Nodes::give_up(NodeId id, Time now) {
  Node& node = at(id);
  add_up_time(node, now);
  set_state(node, NodeState::gone);
}

void Nodes::dismiss(EngineEffects& effects, NodeId id, Time now) {
  Node& node = at(id);
  if (node.is_alive()) effects.disconnect(id);
  give_up(id, now);
  node.deadline = kNever;
}

void Nodes::shut_down(EngineEffects& effects, NodeId id, Time now, Time deadline) {
  constexpr auto kGraceMs = static_cast<std::uint32_t>(kCancelGrace / 1ms);
  Node& node = at(id);
  if (node.state == NodeState::ready || node.state == NodeState::bootstrapping) {
    add_up_time(node, now);
    set_state(node, NodeState::stopping);
    set_deadline(node, deadline);
    effects.send(id, wire::Shutdown{kGraceMs});
  } else if (node.state == NodeState::connecting) {
    set_state(node, NodeState::gone);
    effects.disconnect(id);
  } else if (node.state == NodeState::absent) {
    set_state(node, NodeState::gone);
  }
}

void Nodes::cut_off(EngineEffects& effects) {
  for (Node& node : nodes_) {
    if (node.state != NodeState::stopping) continue;
    set_state(node, NodeState::gone);
    effects.disconnect(node.id);
  }
}

std::optional<NodeId> Nodes::take_late(Time now, Duration silence) {
  while (!alarms_.empty() && alarms_.top().at <= now) {
    const Alarm alarm = alarms_.top();
    alarms_.pop();
    Node& node = at(alarm.node);
    if (node.deadline != alarm.at) continue;  // an alarm of an earlier state
    if (now > alarm.at + kHeldUp && node.state != NodeState::absent) {
      set_deadline(node, now + kReadingGrace);
      continue;
    }
    if (node.state == NodeState::ready) {
      const Time end = std::min(node.last_heard + silence, node.gone_at);
      if (end > now) {
        set_deadline(node, end);
        continue;
      }
    }
    if (node.state == NodeState::absent) node.deadline = kNever;
    return node.id;
  }
  return std::nullopt;
}

}  // namespace skyward::engine
