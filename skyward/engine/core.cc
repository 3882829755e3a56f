#include "skyward/engine/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "skyward/base/check.h"
#include "skyward/engine/core_check.h"
#include "skyward/engine/core_close.h"
#include "skyward/engine/core_loss.h"
#include "skyward/engine/core_open.h"
#include "skyward/engine/core_preempt.h"
#include "skyward/engine/core_spend.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::engine {
namespace {

Error bootstrap_error(const EngineState& state, const Node& node, const wire::Failed& failed) {
  std::string text = fmt::format("node {} ({}, {}) failed in step '{}': {}", node.id.value,
                                 provider_label(state.spec.provider.name), node.instance.id,
                                 failed.step, failed.reason);
  if (!failed.command.empty()) text += fmt::format("\n  command: {}", failed.command);
  if (!failed.lines.empty()) text += "\n  last lines:";
  for (const std::string& line : failed.lines) text += "\n    " + line;
  return {ErrorKind::unavailable, std::move(text), {}};
}

bool has_run(const wire::TaskResult& result) {
  return result.status == wire::TaskStatus::ok || result.status == wire::TaskStatus::raised;
}

void on_recalled(EngineState& state, EngineEffects& effects, Time now, const Node& node,
                 const wire::Recalled& recalled) {
  state.tasks.on_recalled(effects, now, node.id, recalled);
  if (state.tasks.on(node.id).is_open() && !state.budget.is_draining()) return;
  // The recall may have been one for fewer tasks, sent before.
  if (!recalled.tasks.empty()) state.tasks.recall(effects, node.id);
  retire_when_done(state, effects, now, node);
  dismiss_when_done(state, effects, now, node);
}

}  // namespace

EngineState make_state(PoolSpec spec, Options options) {
  EngineState state;
  state.nodes = Nodes(spec.nodes);
  state.orders = MachineOrders(state.nodes.size());
  state.tasks = Tasks(state.nodes.size());
  state.spec = std::move(spec);
  state.options = std::move(options);
  return state;
}

std::vector<InstanceId> take_machines(EngineState& state, NodeId node) {
  std::vector<InstanceId> machines;
  if (auto machine = state.nodes.take_last_machine(node)) machines.push_back(*std::move(machine));
  if (auto successor = state.orders.take_successor(node)) machines.push_back(successor->id);
  return machines;
}

Budget::Facts budget_facts(const EngineState& state, Time now) {
  return {.spec = state.spec,
          .options = state.options,
          .costs = state.costs,
          .offer = state.placement.offer(),
          .provisioning = state.orders.requests(),
          .terminating = state.releases.requests(),
          .mean_run = state.tasks.mean_run(),
          .now = now};
}

void on_submit(EngineState& state, EngineEffects& effects, Time now, TaskId task, wire::Call call) {
  state.tasks.submit(effects, now, task, std::move(call));
}

void on_cancel(EngineState& state, EngineEffects& effects, Time now, TaskId task) {
  state.tasks.cancel(effects, now, task);
}

void on_item_taken(EngineState& state, EngineEffects& effects, TaskId task, std::uint32_t count) {
  state.tasks.take_item(effects, task, count);
}

void on_keep_blob(EngineState& state, EngineEffects& effects, BlobId blob, bool keep) {
  state.tasks.blobs().keep(effects, blob, keep);
}

void on_terminated(EngineState& state, EngineEffects& effects, Time now, Status status) {
  state.costs.on_gone(now, state.releases.on_answer(effects, now, status));
  if (state.budget.is_draining() && state.releases.is_done()) act_on_budget(state, effects, now);
  replace_what_waited(state, effects, now);
  remove_shared(state, effects);
}

void on_torn_down(EngineState& state, EngineEffects& effects, Time now, Status status,
                  const std::vector<InstanceId>& standing) {
  if (!state.placement.is_moving_out()) {
    return finish_closing(state, effects, now, status, standing);
  }
  on_moved_out(state, effects, now, status);
  release_machines(state, effects);
}

void on_offline(EngineState& state, Time now, NodeId id) {
  if (state.nodes[id].is_alive()) state.nodes.hear(id, now);
}

void on_unreached(EngineState& state, NodeId id, const Error& why) {
  if (state.nodes[id].state == NodeState::connecting) state.nodes.note_unreached(id, why.message);
}

void on_message(EngineState& state, EngineEffects& effects, Time now, NodeId id,
                wire::Message message) {
  const Node& node = state.nodes[id];
  if (!node.is_alive()) return;  // a late message of a lost machine
  if (const Status allowed = check_message(node, state.tasks, message); !allowed) {
    effects.disconnect(id);
    return on_node_lost(state, effects, now, id, allowed.error());
  }
  state.nodes.hear(id, now);
  std::visit(
      [&]<typename M>(M&& body) {
        using T = std::remove_cvref_t<M>;
        if constexpr (std::is_same_v<T, wire::BootstrapStep>) {
          state.nodes.on_step(effects, id, now, body.step);
        } else if constexpr (std::is_same_v<T, wire::Ready>) {
          on_ready(state, effects, now, node, body);
        } else if constexpr (std::is_same_v<T, wire::Failed>) {
          effects.disconnect(id);
          const bool ran_nothing = node.state == NodeState::ready;
          state.ran_nothing += ran_nothing ? 1 : 0;
          on_node_lost(state, effects, now, id, bootstrap_error(state, node, body), ran_nothing);
        } else if constexpr (std::is_same_v<T, wire::TaskResult>) {
          if (node.state == NodeState::ready) {
            if (has_run(body)) state.ran_nothing = 0;
            state.tasks.on_result(effects, now, id, std::forward<M>(body));
            if (!state.tasks.on(id).is_open()) retire_when_done(state, effects, now, node);
            if (state.budget.is_draining()) dismiss_when_done(state, effects, now, node);
          }
        } else if constexpr (std::is_same_v<T, wire::StreamItem>) {
          state.ran_nothing = 0;
          state.tasks.on_item(effects, id, std::forward<M>(body));
        } else if constexpr (std::is_same_v<T, wire::Recalled>) {
          if (node.state == NodeState::ready) on_recalled(state, effects, now, node, body);
        } else if constexpr (std::is_same_v<T, wire::BlobFetched>) {
          if (node.state == NodeState::ready) {
            state.tasks.blobs().spreads().on_fetched(effects, id, body);
          }
        } else if constexpr (std::is_same_v<T, wire::Preempted>) {
          on_preempted(state, effects, now, node, body);
        } else if constexpr (std::is_same_v<T, wire::Output>) {
          for (wire::OutputLine& line : body.lines) {
            effects.emit(
                LogLine{.node = static_cast<int>(id.value),
                        .instance_id = node.instance.id,
                        .line = std::move(line.text),
                        .timestamp = static_cast<double>(line.wall_us) * 1e-6,
                        .worker = static_cast<int>(line.worker),
                        .task = line.task.value,
                        .stream = line.stream == wire::OutputStream::err ? "stderr" : "stdout"});
          }
        } else if constexpr (std::is_same_v<T, wire::MetricsSample>) {
          effects.emit(Metrics{.instance_id = node.instance.id,
                               .node = static_cast<int>(id.value),
                               .cpu_percent = body.cpu_percent,
                               .memory_percent = body.memory_percent,
                               .memory_used_mb = body.memory_used_mb,
                               .memory_total_mb = body.memory_total_mb,
                               .gpu_utilization = body.gpu_utilization,
                               .gpu_memory_used_mb = body.gpu_memory_used_mb,
                               .gpu_memory_total_mb = body.gpu_memory_total_mb,
                               .gpu_temperature = body.gpu_temperature});
          state.costs.tell(effects, now);
        }
        // Heartbeat has done its work.
      },
      std::move(message));
}

void on_timer(EngineState& state, EngineEffects& effects, Time now) {
  if (state.lifetime_ends <= now) {
    state.lifetime_ends = kNever;
    end_lifetime(state, effects, now);
  }
  if (state.opening_ends <= now) end_opening(state, effects, now);
  check_close(state, effects, now);
  check_wait(state, effects, now);
  if (state.releases.next_at() <= now) state.releases.on_timer(effects, now);
  if (state.bills.ask_at() <= now) ask_for_bills(state, effects, now);
  if (state.tell_cost_at <= now) tell_cost(state, effects, now);
  if (state.budget.next_at() <= now) act_on_budget(state, effects, now);
  if (state.tasks.deadline() <= now) state.tasks.on_timer(effects, now);
  while (const auto late = state.nodes.take_late(now, state.options.heartbeat_timeout)) {
    on_late(state, effects, now, state.nodes[*late]);
  }
}

Time next_deadline(const EngineState& state) {
  return std::min({state.lifetime_ends, state.opening_ends, state.close_deadline,
                   state.tell_wait_at, state.tell_cost_at, state.releases.next_at(),
                   state.tasks.deadline(), state.nodes.deadline(), state.budget.next_at(),
                   state.bills.ask_at()});
}

void sanity_check(const EngineState& state) {
  state.tasks.check();
  for (const Node& node : state.nodes) {
    const bool waits = node.state == NodeState::connecting ||
                       node.state == NodeState::bootstrapping || node.state == NodeState::ready;
    SKYWARD_CHECK(!state.orders[node.id].successor || node.launched, "node {}", node.id.value);
    if (waits) SKYWARD_CHECK(node.deadline != kNever, "node {} waits for ever", node.id.value);
    if (state.phase != Phase::running) continue;
    const bool open = node.state == NodeState::ready && !node.is_preempted();
    SKYWARD_CHECK(state.tasks.on(node.id).is_open() == open, "node {}", node.id.value);
  }
  for (const auto& [content, spread] : state.tasks.blobs().spreads().all()) {
    for (const auto& [id, copy] : spread.copies) {
      SKYWARD_CHECK(state.phase != Phase::running || state.nodes[id].state == NodeState::ready,
                    "node {}", id.value);
    }
  }
  if (state.phase == Phase::closed) {
    SKYWARD_CHECK(state.tasks.size() == 0 && state.orders.requests() == 0 &&
                  state.releases.is_done());
    SKYWARD_CHECK(!state.nodes.any_alive());
  }
}

}  // namespace skyward::engine
