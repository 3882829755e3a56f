// Phases and nodes: opening, joining, losing, replacing. See core.h for the idea.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"
#include "skyward/spec/accelerator_script.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/spec/topology.h"
#include "skyward/wire/codec.h"

namespace skyward::engine {
namespace {

// The documented steps of a bootstrap, in order. "volumes" only where there are some.
constexpr std::array<std::string_view, 5> kSteps = {"uv", "apt", "deps", "skyward", "server"};

std::string head_address(const State& state) { return state.nodes.front().instance.private_ip; }

wire::KeyValues worker_environment(const State& state, const Node& node, std::uint32_t worker) {
  std::map<std::string, std::string> values = state.spec.image.env;
  for (const auto& [name, value] : state.spec.env) values[name] = value;
  for (const auto& [name, value] : state.spec.runtime.environment) values[name] = value;
  InstanceInfo info;
  info.node = static_cast<int>(node.id.value);
  info.worker = static_cast<int>(worker);
  info.total_nodes = static_cast<int>(state.nodes.size());
  info.workers_per_node = static_cast<int>(state.options.workers_per_node);
  const bool apart = !state.options.private_network && state.nodes.size() > 1;
  if (apart) {
    info.no_network_of = provider_label(state.spec.provider.name);
  } else {
    info.head_addr = head_address(state);
  }
  info.head_port = state.placement.head_port();
  info.job_id = state.options.job_id;
  if (!apart && state.nodes.size() <= kMaxPeersTold) {
    for (const Node& peer : state.nodes) {
      info.peers.push_back({static_cast<int>(peer.id.value), peer.instance.private_ip});
    }
  }
  values["COMPUTE_POOL"] = to_json(info);
  return {values.begin(), values.end()};
}

wire::Configure configuration(const State& state, Time now, const Node& node, NodeSetup setup) {
  wire::Configure configure;
  configure.worker_command = std::move(setup.worker_command);
  configure.directory = std::move(setup.directory);
  configure.bootstrap = std::move(setup.bootstrap);
  if (state.spec.accelerator) {
    configure.bootstrap = accelerator_script(*state.spec.accelerator) + configure.bootstrap;
  }
  configure.bootstrap_environment = std::move(setup.bootstrap_environment);
  for (std::uint32_t worker = 0; worker < state.options.workers_per_node; ++worker) {
    configure.workers.push_back({worker_environment(state, node, worker)});
  }
  configure.concurrency = static_cast<std::uint32_t>(state.spec.concurrency);
  configure.heartbeat_ms = static_cast<std::uint32_t>(state.options.heartbeat_interval / 1ms);
  configure.end_command = std::move(setup.end_command);
  configure.end_script = std::move(setup.end_script);
  configure.preemption = std::move(setup.preemption);
  configure.peer_key = state.options.peer_key;
  if (!configure.peer_key.empty()) configure.peer_address = node.instance.private_ip;
  configure.lease_ms = static_cast<std::uint64_t>(state.options.lease / 1ms);
  // The engine ends the pool first; the agent does it where that has not worked.
  if (state.options.lease > Duration{} && state.lifetime_ends != kNever) {
    const Duration left = std::max(state.lifetime_ends - now, Duration{}) + kLifetimeGrace;
    configure.lifetime_ms = static_cast<std::uint64_t>(left / 1ms);
  }
  configure.metrics_ms =
      state.spec.collect_metrics ? static_cast<std::uint32_t>(kMetricsInterval / 1ms) : 0;
  return configure;
}

// Tells of the steps up to and including `step`; those before it that had nothing to do are done
// with it.
void report_steps(Effects& effects, Node& node, std::string_view step) {
  const auto found = std::ranges::find(kSteps, step);
  if (found == kSteps.end()) {
    effects.emit(BootstrapProgress{node.instance.id, std::string(step)});
    return;
  }
  const auto until = static_cast<std::size_t>(found - kSteps.begin()) + 1;
  for (; node.steps < until; ++node.steps) {
    effects.emit(BootstrapProgress{node.instance.id, std::string(kSteps[node.steps])});
  }
}

void all_ready(State& state, Effects& effects, Time now) {
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
                    .agents_talk = !state.options.peer_key.empty(),
                    .tell_starts = state.spec.collect_tasks});
  for (Node& node : state.nodes) {
    open_node(state, effects, now, node);
    prepare_successor(state, effects, now, node);
  }
}

void on_ready(State& state, Effects& effects, Time now, Node& node, const wire::Ready& ready) {
  if (node.state != NodeState::bootstrapping) return;
  report_steps(effects, node, "server");
  const Time prepared = std::max(node.prepared_at, node.joined_at);
  effects.emit(BootstrapCompleted{.instance_id = node.instance.id,
                                  .connect_seconds = seconds(node.reached_at - node.connecting_at),
                                  .agent_seconds = seconds(node.joined_at - node.reached_at),
                                  .environment_seconds = seconds(prepared - node.joined_at),
                                  .workers_seconds = seconds(now - prepared)});
  node.state = NodeState::ready;
  node.ready_at = now;
  state.costs.on_ready(now, node.instance.id);
  node.peer_port = ready.peer_port;
  node.slots =
      std::min(state.options.workers_per_node * static_cast<std::uint32_t>(state.spec.concurrency),
               state.options.max_tasks_given);
  set_deadline(state, node, now + state.options.heartbeat_timeout);
  if (!node.replaced.empty()) {
    effects.emit(InstanceReplaced{std::exchange(node.replaced, {}), node.instance.id,
                                  static_cast<int>(node.id.value), node.replacements});
  }
  if (state.phase == Phase::running) {
    open_node(state, effects, now, node);
    prepare_successor(state, effects, now, node);
  } else if (std::ranges::all_of(state.nodes,
                                 [](const Node& n) { return n.state == NodeState::ready; })) {
    all_ready(state, effects, now);
  }
}

Error bootstrap_error(const State& state, const Node& node, const wire::Failed& failed) {
  std::string text = fmt::format("node {} ({}, {}) failed in step '{}': {}", node.id.value,
                                 provider_label(state.spec.provider.name), node.instance.id,
                                 failed.step, failed.reason);
  if (!failed.command.empty()) text += fmt::format("\n  command: {}", failed.command);
  if (!failed.lines.empty()) text += "\n  last lines:";
  for (const std::string& line : failed.lines) text += "\n    " + line;
  return {ErrorKind::unavailable, std::move(text), {}};
}

void give_up_node(State& state, Effects& effects, Node& node, const Error& why) {
  node.state = NodeState::gone;
  effects.emit(ErrorEvent{fmt::format("giving up on node {} after {} replacements: {}",
                                      node.id.value, node.replacements, why.message),
                          node.instance.id});
  const Error lost{
      why.kind == ErrorKind::over_budget || why.kind == ErrorKind::unreachable ? why.kind
                                                                               : ErrorKind::lost,
      fmt::format("node {} was lost and could not be replaced: {}", node.id.value, why.message),
      {}};
  const bool any_left =
      std::ranges::any_of(state.nodes, [](const Node& n) { return n.state != NodeState::gone; });
  if (!any_left) {
    state.tasks.abandon(effects, lost);
    return;
  }
  state.tasks.give_up_node(effects, node.id, node.instance.id, lost);
}

// Machines that came too late.
void give_back(State& state, Effects& effects, const std::vector<Instance>& instances) {
  std::vector<InstanceId> ids;
  for (const Instance& instance : instances) ids.push_back(instance.id);
  state.releases.release(effects, std::move(ids));
}

// Those that cost too much an hour beside the others go at once.
void keep_within_rate(State& state, Effects& effects, Time now,
                      Result<std::vector<Instance>>& instances) {
  if (!instances) return;
  const Status within = state.budget.check_rate(budget_facts(state, now));
  if (within) return;
  give_back(state, effects, *instances);
  instances = fail(within);
}

void replace_node(State& state, Effects& effects, Time now, Node& node, bool was_ready,
                  const Error& why) {
  if (state.budget.is_draining()) {
    effects.emit(
        ErrorEvent{fmt::format("node {} was lost: {}; the budget does not cover a replacement",
                               node.id.value, why.message),
                   node.instance.id});
    dismiss_when_done(state, effects, now, node);
    return;
  }
  effects.emit(
      ErrorEvent{fmt::format("node {} was lost: {}; replacing it", node.id.value, why.message),
                 node.instance.id});
  if (node.replaced.empty()) node.replaced = node.instance.id;
  node.bought = false;
  effects.emit(InstanceStopping{node.instance.id});
  state.releases.release(effects, {node.instance.id});
  node.state = NodeState::absent;
  node.deadline = kNever;
  if (node.buying_successor) return;  // it is on its way
  if (node.successor) {
    launch_instance(state, node, *std::exchange(node.successor, {}), now);
    connect_node(effects, node);
    return;
  }
  if (node.replacements >= static_cast<int>(kMaxNodeReplacements)) {
    give_up_node(state, effects, node, why);
    return;
  }
  // One that came to nothing is not followed at once: the way there may be closed for a moment.
  if (!was_ready && node.replacements > 0) {
    set_deadline(state, node, now + node.replacements * kReplacementPause);
    return;
  }
  buy_replacement(state, effects, now, node);
}

void on_recalled(State& state, Effects& effects, Time now, Node& node,
                 const wire::Recalled& recalled) {
  state.tasks.on_recalled(effects, now, node.id, recalled);
  if (state.tasks.on(node.id).is_open() && !state.budget.is_draining()) return;
  // The recall may have been one for fewer tasks, sent before.
  if (!recalled.tasks.empty()) state.tasks.recall(effects, node.id);
  retire_when_done(state, effects, now, node);
  dismiss_when_done(state, effects, now, node);
}

void check_node(State& state, Effects& effects, Time now, Node& node, Time alarm) {
  if (node.deadline != alarm) return;  // an alarm of an earlier state
  if (node.state == NodeState::ready) {
    const Time end = std::min(node.last_heard + state.options.heartbeat_timeout, node.gone_at);
    if (end > now) {
      set_deadline(state, node, end);
      return;
    }
  }
  std::string text;
  switch (node.state) {
    case NodeState::connecting:
      text = fmt::format("its agent sent no greeting within {:.0f} s",
                         seconds(state.options.greet_timeout));
      break;
    case NodeState::bootstrapping:
      text = fmt::format("it was not ready within {:.0f} s", seconds(kBootstrapTimeout));
      break;
    case NodeState::ready:
      text = node.gone_at <= now ? std::string("its cloud has preempted the machine")
                                 : fmt::format("no message from it for {:.1f} s",
                                               seconds(state.options.heartbeat_timeout));
      break;
    case NodeState::absent:
      node.deadline = kNever;
      if (state.budget.is_draining()) return dismiss_when_done(state, effects, now, node);
      buy_replacement(state, effects, now, node);
      return;
    case NodeState::draining:
    case NodeState::gone:
      return;
  }
  effects.disconnect(node.id);
  on_node_lost(state, effects, now, node.id, {ErrorKind::lost, std::move(text), {}});
}

}  // namespace

Node& node_at(State& state, NodeId id) {
  SKYWARD_CHECK(id.value < state.nodes.size(), "node {}", id.value);
  return state.nodes[id.value];
}

void open_node(State& state, Effects& effects, Time now, Node& node) {
  if (node.gone_at != kNever) return;
  state.tasks.open_node(effects, now, node.id, node.slots,
                        {.instance = node.instance.id,
                         .address = node.instance.private_ip,
                         .port = node.peer_port,
                         .gives = true});
}

bool is_alive(const Node& node) {
  return node.state == NodeState::connecting || node.state == NodeState::bootstrapping ||
         node.state == NodeState::ready || node.state == NodeState::draining;
}

void buy(State& state, Effects& effects, Time now, int count, NodeId first_node) {
  ++state.provisioning;
  state.costs.on_asked(now, first_node, count);
  effects.provision(count, first_node);
}

void buy_replacement(State& state, Effects& effects, Time now, Node& node) {
  if (const Status paid = state.budget.check_machine(budget_facts(state, now)); !paid) {
    give_up_node(state, effects, node, paid.error());
    return;
  }
  if (const Status within = state.budget.check_rate_with_another(budget_facts(state, now));
      !within) {
    node.waits_for_rate =
        state.releases.requests() > 0 || state.provisioning > 0 || state.releases.may_still_end();
    if (!node.waits_for_rate) give_up_node(state, effects, node, within.error());
    return;
  }
  ++node.replacements;
  buy(state, effects, now, 1, node.id);
}

void buy_what_waited(State& state, Effects& effects, Time now) {
  if (state.phase != Phase::running || state.budget.is_draining()) return;
  for (Node& node : state.nodes) {
    if (!std::exchange(node.waits_for_rate, false)) continue;
    if (node.state == NodeState::absent) buy_replacement(state, effects, now, node);
  }
}

void dismiss(State& state, Effects& effects, Time now, Node& node) {
  if (is_alive(node)) effects.disconnect(node.id);
  if (node.state == NodeState::ready) node.up_seconds += seconds(now - node.ready_at);
  node.state = NodeState::gone;
  node.deadline = kNever;
  note_work(state, now, node);
  std::vector<InstanceId> instances;
  if (std::exchange(node.bought, false)) instances.push_back(node.instance.id);
  if (node.successor) instances.push_back(std::exchange(node.successor, {})->id);
  if (instances.empty()) return;
  for (const InstanceId& id : instances) effects.emit(InstanceStopping{id});
  state.releases.release(effects, std::move(instances));
}

void set_deadline(State& state, Node& node, Time deadline) {
  node.deadline = deadline;
  if (deadline != kNever) {
    state.alarms.push({deadline, node.id});
  }
}

void announce_instance(State& state, Effects& effects, const Node& node, const Instance& instance) {
  effects.emit(InstanceProvisioned{
      .instance_id = instance.id,
      .node = static_cast<int>(node.id.value),
      .spot = instance.spot,
      .provider = provider_label(state.spec.provider.name),
      .ip = instance.private_ip,
      .instance_type = instance.instance_type.empty() ? state.placement.offer().instance_type
                                                      : instance.instance_type,
      .price_on_demand = instance.price_on_demand ? instance.price_on_demand
                                                  : state.placement.offer().price_on_demand,
      .price_spot = instance.price_spot ? instance.price_spot : state.placement.offer().price_spot,
      .billing_increment_minutes =
          state.placement.offer().billing_increment_minutes > 0
              ? std::optional(state.placement.offer().billing_increment_minutes)
              : std::nullopt});
}

void launch_instance(State& state, Node& node, Instance instance, Time now) {
  node.instance = std::move(instance);
  node.bought = true;
  node.steps = 0;
  node.gone_at = kNever;
  node.state = NodeState::connecting;
  node.connecting_at = now;
  node.prepared_at = {};
  set_deadline(state, node, now + state.options.greet_timeout);
}

void connect_node(Effects& effects, Node& node) {
  effects.emit(BootstrapStarting{node.instance.id});
  effects.connect(node.id, node.instance);
}

State make_state(PoolSpec spec, Options options) {
  State state;
  for (int i = 0; i < spec.nodes; ++i) {
    Node& node = state.nodes.emplace_back();
    node.id = NodeId{static_cast<std::uint32_t>(i)};
  }
  state.tasks = Tasks(state.nodes.size());
  state.spec = std::move(spec);
  state.options = std::move(options);
  return state;
}

void on_provisioned(State& state, Effects& effects, Time now, NodeId first_node, int count,
                    Result<std::vector<Instance>> instances) {
  --state.provisioning;
  const Time asked = state.costs.on_answered(now, first_node);
  if (instances) {
    for (std::uint32_t i = 0; i < instances->size(); ++i) {
      state.costs.on_bought(asked, NodeId{first_node.value + i}, (*instances)[i]);
    }
  }
  if (state.budget.is_draining() && state.phase == Phase::running) {
    if (instances) give_back(state, effects, *instances);
    return;
  }
  if (state.phase == Phase::running) keep_within_rate(state, effects, now, instances);
  const bool wanted = state.phase == Phase::provisioning || state.phase == Phase::running;
  if (!instances) {
    if (state.phase == Phase::provisioning) {
      look_elsewhere(state, effects, now, instances.error());
    } else if (state.phase == Phase::running) {
      Node& node = node_at(state, first_node);
      const bool lost = !std::exchange(node.buying_successor, false) || !is_alive(node);
      if (lost) {
        give_up_node(state, effects, node, instances.error());
      } else {
        on_no_successor(state, effects, node, instances.error());
      }
      buy_what_waited(state, effects, now);
    } else {
      give_back_when_idle(state, effects);
    }
    return;
  }
  SKYWARD_CHECK(static_cast<int>(instances->size()) == count);
  ProvisioningCompleted completed{.spot = 0,
                                  .on_demand = 0,
                                  .provider = provider_label(state.spec.provider.name),
                                  .region = state.placement.cluster().region,
                                  .instances = {}};
  std::vector<NodeId> launched;
  for (std::size_t i = 0; i < instances->size(); ++i) {
    Node& node = node_at(state, NodeId{first_node.value + static_cast<std::uint32_t>(i)});
    completed.instances.push_back((*instances)[i].id);
    ++((*instances)[i].spot ? completed.spot : completed.on_demand);
    node.buying_successor = false;
    if (wanted) announce_instance(state, effects, node, (*instances)[i]);
    if (wanted && is_alive(node)) {
      on_successor(state, effects, now, node, std::move((*instances)[i]));
    } else if (wanted) {
      launch_instance(state, node, std::move((*instances)[i]), now);
      launched.push_back(node.id);
    } else if (node.bought) {  // too late: give_back_when_idle ends it
      node.successor = std::move((*instances)[i]);
    } else {
      node.instance = std::move((*instances)[i]);
      node.bought = true;
    }
  }
  if (!wanted) {
    give_back_when_idle(state, effects);
    return;
  }
  if (state.phase == Phase::provisioning) {
    state.phase.set(Phase::starting);
    effects.emit(std::move(completed));
  }
  for (const NodeId node : launched) connect_node(effects, node_at(state, node));
  begin_to_pay(state, effects, now);
  buy_what_waited(state, effects, now);
}

void on_joined(State& state, Effects& effects, Time now, NodeId id, NodeSetup setup) {
  Node& node = node_at(state, id);
  if (node.state != NodeState::connecting) return;
  node.state = NodeState::bootstrapping;
  node.joined_at = now;
  node.reached_at = setup.reached_at.value_or(now);
  node.last_heard = now;
  set_deadline(state, node, now + kBootstrapTimeout);
  wire::Configure configure = configuration(state, now, node, std::move(setup));
  if (const Status fits = wire::check_limits(configure); !fits) {
    effects.disconnect(id);
    return on_node_lost(state, effects, now, id, fits.error());
  }
  effects.send(id, std::move(configure));
}

void on_submit(State& state, Effects& effects, Time now, TaskSpec task) {
  state.tasks.submit(effects, now, std::move(task));
}

void on_cancel(State& state, Effects& effects, Time now, TaskId task) {
  state.tasks.cancel(effects, now, task);
}

void on_item_taken(State& state, Effects& effects, TaskId task, std::uint32_t count) {
  state.tasks.take_item(effects, task, count);
}

void on_keep_blob(State& state, Effects& effects, BlobId blob, bool keep) {
  state.tasks.blobs().keep(effects, blob, keep);
}

void on_message(State& state, Effects& effects, Time now, NodeId id, wire::Message message) {
  Node& node = node_at(state, id);
  if (!is_alive(node)) return;  // a last word of a machine that is given up
  if (const Status allowed = check_message(state, node, message); !allowed) {
    effects.disconnect(id);
    return on_node_lost(state, effects, now, id, allowed.error());
  }
  node.last_heard = now;
  std::visit(
      [&]<typename M>(M&& body) {
        using T = std::remove_cvref_t<M>;
        if constexpr (std::is_same_v<T, wire::BootstrapStep>) {
          report_steps(effects, node, body.step);
          if (body.step != kSteps.back()) node.prepared_at = now;
        } else if constexpr (std::is_same_v<T, wire::Ready>) {
          on_ready(state, effects, now, node, body);
        } else if constexpr (std::is_same_v<T, wire::Failed>) {
          effects.disconnect(id);
          on_node_lost(state, effects, now, id, bootstrap_error(state, node, body));
        } else if constexpr (std::is_same_v<T, wire::TaskResult>) {
          if (node.state == NodeState::ready) {
            state.tasks.on_result(effects, now, id, std::forward<M>(body));
            if (!state.tasks.on(id).is_open()) retire_when_done(state, effects, now, node);
            dismiss_when_done(state, effects, now, node);
          }
        } else if constexpr (std::is_same_v<T, wire::StreamItem>) {
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

void on_node_lost(State& state, Effects& effects, Time now, NodeId id, Error why) {
  Node& node = node_at(state, id);
  if (!is_alive(node)) return;
  if (node.state == NodeState::draining) {  // as it should be
    node.state = NodeState::gone;
    give_back_when_idle(state, effects);
    return;
  }
  const bool was_ready = node.state == NodeState::ready;
  if (was_ready) node.up_seconds += seconds(now - node.ready_at);
  node.state = NodeState::absent;
  if (state.phase == Phase::running) {
    state.costs.on_work(node.instance.id, state.tasks.lose_node(effects, now, id, why));
    replace_node(state, effects, now, node, was_ready, why);
    return;
  }
  node.state = NodeState::gone;
  if (why.message.find(node.instance.id) == std::string::npos) {
    why.message =
        fmt::format("node {} ({}, {}) did not start: {}", id.value,
                    provider_label(state.spec.provider.name), node.instance.id, why.message);
  }
  fail_open(state, effects, now, std::move(why));
}

void on_timer(State& state, Effects& effects, Time now) {
  if (state.lifetime_ends <= now) {
    state.lifetime_ends = kNever;
    end_lifetime(state, effects, now);
  }
  check_close(state, effects, now);
  check_wait(state, effects, now);
  if (state.releases.again_at() <= now) state.releases.retry(effects);
  if (state.bills.ask_at() <= now) ask_for_bills(state, effects, now);
  if (state.budget.look_at() <= now) look_at_budget(state, effects, now);
  if (state.tasks.deadline() <= now) state.tasks.on_timer(effects, now);
  while (!state.alarms.empty() && state.alarms.top().at <= now) {
    const State::Alarm alarm = state.alarms.top();
    state.alarms.pop();
    check_node(state, effects, now, node_at(state, alarm.node), alarm.at);
  }
}

Time next_deadline(const State& state) {
  Time next = std::min({state.lifetime_ends, state.close_deadline, state.releases.again_at(),
                        state.tasks.deadline(), state.tell_wait_at, state.budget.look_at(),
                        state.bills.ask_at()});
  if (!state.alarms.empty()) next = std::min(next, state.alarms.top().at);
  return next;
}

void sanity_check(const State& state) {
  state.tasks.check();
  for (const Node& node : state.nodes) {
    const bool waits = node.state == NodeState::connecting ||
                       node.state == NodeState::bootstrapping || node.state == NodeState::ready;
    SKYWARD_CHECK(!node.successor || node.bought, "node {}", node.id.value);
    if (waits) SKYWARD_CHECK(node.deadline != kNever, "node {} waits for ever", node.id.value);
    if (state.phase != Phase::running) continue;
    const bool open = node.state == NodeState::ready && node.gone_at == kNever;
    SKYWARD_CHECK(state.tasks.on(node.id).is_open() == open, "node {}", node.id.value);
  }
  for (const auto& [content, spread] : state.tasks.blobs().spreads().all()) {
    for (const auto& [id, copy] : spread.copies) {
      SKYWARD_CHECK(
          state.phase != Phase::running || state.nodes[id.value].state == NodeState::ready,
          "node {}", id.value);
    }
  }
  if (state.phase == Phase::closed) {
    SKYWARD_CHECK(state.tasks.size() == 0 && state.provisioning == 0 && state.releases.is_done());
    for (const Node& node : state.nodes) SKYWARD_CHECK(!is_alive(node));
  }
}

}  // namespace skyward::engine
