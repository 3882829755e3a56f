#pragma once

// The machines on order: requested from the provider, and not yet a node's own. A node that loses
// its machine gets a replacement. One whose cloud will preempt its machine gets a successor in
// advance, which takes over when the present machine is done. Knows nothing of the states of nodes;
// the core decides when to request one (core_loss.cc, core_preempt.cc). Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/spec/id.h"
#include "skyward/spec/offer.h"

namespace skyward::engine {

class EngineEffects;

class MachineOrders {
 public:
  // Of one node.
  struct Order {
    int replacements = 0;               // requested, of machines that follow each other closely
    int refusals = 0;                   // since the last machine was lost
    bool awaits_successor = false;      // requested while the present machine works
    std::optional<Instance> successor;  // provisioned, and waits for the present machine's end
    bool waits_for_rate = false;        // to be requested when other machines are known to be gone
    std::string lost_at_opening;        // why the last machine was lost while the pool opened
  };

  explicit MachineOrders(std::size_t nodes = 0) : orders_(nodes) {}

  const Order& operator[](NodeId node) const {
    SKYWARD_CHECK(node.value < orders_.size(), "node {}", node.value);
    return orders_[node.value];
  }
  int requests() const { return requests_; }  // not answered yet

  // Requests machines for this node and the following ones.
  void request(EngineEffects& effects, NodeId first, int count);
  void request_replacement(EngineEffects& effects, NodeId node);
  void request_successor(EngineEffects& effects, NodeId node);
  // The provider has answered a request. Returns whether it was for a successor.
  bool on_answered(NodeId first);
  // The node's machine has been lost or will be; `steady`: it has worked for long.
  void on_loss(NodeId node, bool steady);
  void on_loss_at_opening(NodeId node, std::string why) {
    at(node).lost_at_opening = std::move(why);
  }
  // A machine was refused: it does not count as a replacement.
  void on_refusal(NodeId node);

  void keep_successor(NodeId node, Instance instance) { at(node).successor = std::move(instance); }
  std::optional<Instance> take_successor(NodeId node);

  // The node's machine is requested when other machines are known to be gone; take_waiting()
  // returns the nodes that wait for this.
  void wait_for_rate(NodeId node) { at(node).waits_for_rate = true; }
  std::vector<NodeId> take_waiting();

 private:
  Order& at(NodeId node);

  std::vector<Order> orders_;
  int requests_ = 0;
};

}  // namespace skyward::engine
