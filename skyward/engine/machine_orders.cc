#include "skyward/engine/machine_orders.h"

#include "skyward/engine/effects.h"

namespace skyward::engine {

MachineOrders::Order& MachineOrders::at(NodeId node) {
  SKYWARD_CHECK(node.value < orders_.size(), "node {}", node.value);
  return orders_[node.value];
}

void MachineOrders::request(EngineEffects& effects, NodeId first, int count) {
  ++requests_;
  effects.provision(count, first);
}

void MachineOrders::request_replacement(EngineEffects& effects, NodeId node) {
  ++at(node).replacements;
  request(effects, node, 1);
}

void MachineOrders::request_successor(EngineEffects& effects, NodeId node) {
  at(node).awaits_successor = true;
  request_replacement(effects, node);
}

bool MachineOrders::on_answered(NodeId first) {
  --requests_;
  return std::exchange(at(first).awaits_successor, false);
}

void MachineOrders::on_loss(NodeId node, bool steady) {
  Order& order = at(node);
  order.refusals = 0;
  if (steady && !order.awaits_successor && !order.successor) order.replacements = 0;
}

void MachineOrders::on_refusal(NodeId node) {
  --at(node).replacements;
  ++at(node).refusals;
}

std::optional<Instance> MachineOrders::take_successor(NodeId node) {
  return std::exchange(at(node).successor, {});
}

std::vector<NodeId> MachineOrders::take_waiting() {
  std::vector<NodeId> waiting;
  for (std::uint32_t i = 0; i < orders_.size(); ++i) {
    if (std::exchange(orders_[i].waits_for_rate, false)) waiting.push_back(NodeId{i});
  }
  return waiting;
}

}  // namespace skyward::engine
