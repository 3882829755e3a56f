// Machines that their cloud takes back: nothing new goes to them, what waits there is called back,
// and another machine is bought while the present one still works. The other takes the place, with
// its rank, when the present one has nothing left to do or is gone, whichever is first.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {

void on_preempted(State& state, Effects& effects, Time now, Node& node,
                  const wire::Preempted& notice) {
  if (node.gone_at != kNever) return;
  const Duration left = std::chrono::milliseconds(std::min(notice.left_ms, kMaxNoticeMs));
  effects.emit(InstancePreempted{.instance_id = node.instance.id,
                                 .node = static_cast<int>(node.id.value),
                                 .reason = notice.reason,
                                 .seconds_left = seconds(left)});
  if (node.state == NodeState::draining) return;
  node.gone_at = now + left + kPreemptionGrace;
  state.tasks.stop_node(node.id);
  if (node.state != NodeState::ready) return;
  set_deadline(state, node, std::min(node.deadline, node.gone_at));
  if (state.phase == Phase::running) prepare_successor(state, effects, now, node);
}

void prepare_successor(State& state, Effects& effects, Time now, Node& node) {
  if (node.gone_at == kNever || state.budget.is_draining()) return;
  state.tasks.recall(effects, node.id);
  if (node.buying_successor || node.successor) return;
  const Budget::Facts facts = budget_facts(state, now);
  // Without one, the end of the machine is a loss like any other.
  if (node.replacements >= static_cast<int>(kMaxNodeReplacements)) return;
  if (!state.budget.check_machine(facts) || !state.budget.check_rate_with_another(facts)) return;
  ++node.replacements;
  node.buying_successor = true;
  buy(state, effects, now, 1, node.id);
}

void on_successor(State& state, Effects& effects, Time now, Node& node, Instance instance) {
  node.successor = std::move(instance);
  retire_when_done(state, effects, now, node);
}

void on_no_successor(State&, Effects& effects, Node& node, const Error& why) {
  --node.replacements;  // tried again when the machine is gone
  effects.emit(ErrorEvent{
      fmt::format("no replacement for node {} yet: {}; retrying when its machine is gone",
                  node.id.value, why.message),
      node.instance.id});
}

void retire_when_done(State& state, Effects& effects, Time now, Node& node) {
  if (state.phase != Phase::running || node.state != NodeState::ready) return;
  if (!state.tasks.is_idle(node.id) || !node.successor) return;
  node.up_seconds += seconds(now - node.ready_at);
  node.state = NodeState::absent;
  state.costs.on_work(
      node.instance.id,
      state.tasks.lose_node(effects, now, node.id, {ErrorKind::lost, "its cloud preempts it", {}}));
  effects.disconnect(node.id);
  if (node.replaced.empty()) node.replaced = node.instance.id;
  effects.emit(InstanceStopping{node.instance.id});
  state.releases.release(effects, {node.instance.id});
  launch_instance(state, node, *std::exchange(node.successor, {}), now);
  connect_node(effects, node);
}

}  // namespace skyward::engine
