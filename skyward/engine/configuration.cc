#include "skyward/engine/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "skyward/spec/accelerator_script.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/spec/topology.h"

namespace skyward::engine {
namespace {

// The nodes cannot reach each other.
bool is_apart(const EngineState& state) {
  return !state.options.private_network && state.nodes.size() > 1;
}

// Of more nodes, each knows only the address of node 0.
bool tells_peers(const EngineState& state) { return state.nodes.size() <= kMaxPeersTold; }

// At which the workers of the pool reach this node. Without a private network, a router may have
// the address that the provider tells; the only node of a pool still reaches itself.
std::string address_in_pool(const EngineState& state, const Node& node) {
  const bool is_alone = state.nodes.size() == 1 && !state.options.private_network;
  return is_alone ? "127.0.0.1" : node.instance.private_ip;
}

// What the script of accelerators tells on a node that has them. No CUDA program finds a device by
// this name, so that it does not use another one that is there.
void add_invented_partition(const Accelerator& accelerator, std::uint32_t worker,
                            std::map<std::string, std::string>& values) {
  const std::size_t of_each = mig_partitions(accelerator).size();
  if (of_each == 0) return;
  const std::size_t gpu = worker / of_each;
  const std::size_t partition = worker % of_each;
  values["CUDA_VISIBLE_DEVICES"] = fmt::format("MIG-fake-{}-{}", gpu, partition);
  values["SKYWARD_WORKER_ID"] = std::to_string(worker);
  values["SKYWARD_MIG_GPU"] = std::to_string(gpu);
  values["SKYWARD_MIG_PARTITION"] = std::to_string(partition);
}

wire::KeyValues worker_environment(const EngineState& state, const Node& node,
                                   std::uint32_t worker) {
  std::map<std::string, std::string> values = state.spec.image.env;
  for (const auto& [name, value] : state.spec.env) values[name] = value;
  for (const auto& [name, value] : state.spec.runtime.environment) values[name] = value;
  if (state.spec.accelerator && !state.options.real_devices) {
    add_invented_partition(*state.spec.accelerator, worker, values);
  }
  InstanceInfo info;
  info.node = static_cast<int>(node.id.value);
  info.worker = static_cast<int>(worker);
  info.total_nodes = static_cast<int>(state.nodes.size());
  info.workers_per_node = static_cast<int>(state.options.workers_per_node);
  const bool apart = is_apart(state);
  if (apart) {
    info.no_network_of = provider_label(state.spec.provider.name);
  } else {
    info.head_addr = address_in_pool(state, state.nodes[NodeId{0}]);
  }
  info.head_port = state.placement.head_port();
  info.job_id = state.options.job_id;
  if (!apart && tells_peers(state)) {
    for (const Node& peer : state.nodes) {
      info.peers.push_back({static_cast<int>(peer.id.value), address_in_pool(state, peer)});
    }
  }
  values[kInstanceInfoVariable] = to_json(info);
  return {values.begin(), values.end()};
}

}  // namespace

wire::Configure configuration(const EngineState& state, Time now, const Node& node,
                              NodeSetup setup) {
  wire::Configure configure;
  configure.worker_command = std::move(setup.worker_command);
  configure.directory = std::move(setup.directory);
  configure.bootstrap = std::move(setup.bootstrap);
  if (state.spec.accelerator && state.options.real_devices) {
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

void tell_peers(const EngineState& state, EngineEffects& effects, const Node& moved) {
  if (is_apart(state) || (moved.id.value != 0 && !tells_peers(state))) return;
  for (const Node& node : state.nodes) {
    const bool configured =
        node.state == NodeState::bootstrapping || node.state == NodeState::ready;
    if (!configured || node.id == moved.id) continue;
    effects.send(node.id, wire::PeerMoved{moved.id, moved.instance.private_ip});
  }
}

}  // namespace skyward::engine
