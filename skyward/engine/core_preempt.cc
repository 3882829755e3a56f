#include "skyward/engine/core_preempt.h"

#include <algorithm>
#include <utility>

#include "skyward/engine/core_loss.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/loss.h"

namespace skyward::engine {
namespace {

Error preempted() {
  return with_loss({ErrorKind::lost, "its cloud preempts it", {}}, {.preempted = true});
}

}  // namespace

void on_preempted(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                  const wire::Preempted& notice) {
  if (node.is_preempted()) return;
  const Duration left = std::chrono::milliseconds(std::min(notice.left_ms, kMaxNoticeMs));
  effects.emit(InstancePreempted{.instance_id = node.instance.id,
                                 .node = static_cast<int>(node.id.value),
                                 .reason = notice.reason,
                                 .seconds_left = seconds(left)});
  if (node.state == NodeState::stopping) return;
  const Time gone_at = now + left + kPreemptionGrace;
  if (state.phase == Phase::starting) {  // it does nothing yet that it could finish
    state.nodes.preempt(node.id, gone_at);
    effects.disconnect(node.id);
    return on_node_lost(state, effects, now, node.id, preempted());
  }
  note_loss(state, now, node);
  state.nodes.preempt(node.id, gone_at);
  state.tasks.stop_node(node.id);
  if (node.state == NodeState::ready) prepare_successor(state, effects, now, node);
}

void prepare_successor(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  if (!node.is_preempted() || state.budget.is_draining()) return;
  state.tasks.recall(effects, node.id);
  if (!state.spec.prepares_successors) return;
  // Without one, the end of the machine is a loss like any other.
  if (state.orders[node.id].replacements >= static_cast<int>(kMaxNodeReplacements)) return;
  const Budget::Facts facts = budget_facts(state, now);
  if (!state.budget.check_machine(facts) || !state.budget.check_rate_with_another(facts)) return;
  state.costs.on_asked(now, node.id, 1);
  state.orders.request_successor(effects, node.id);
}

void retire_when_done(EngineState& state, EngineEffects& effects, Time now, const Node& node) {
  if (state.phase != Phase::running || node.state != NodeState::ready) return;
  if (!state.orders[node.id].successor || !state.tasks.is_idle(node.id)) return;
  state.costs.on_work(node.instance.id, state.tasks.lose_node(effects, now, node.id, preempted()));
  if (state.spec.volumes.empty()) {
    effects.disconnect(node.id);
    return hand_over(state, effects, now, node);
  }
  unmount(state, effects, now, node);
}

}  // namespace skyward::engine
