#pragma once

// The pool's nodes. A node keeps its rank when its machine is replaced; each of its machines goes
// through the states below, by one checked table. Nodes knows the state of each machine, the
// deadline of that state, and the machine's successor; the core decides what follows for tasks and
// money (core_loss.cc, core_close.cc). Pure; core_pool_test.cc shows its rules.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/base/time.h"
#include "skyward/spec/id.h"
#include "skyward/spec/offer.h"

namespace skyward::engine {

class EngineEffects;

enum class NodeState : std::uint8_t {
  absent,         // no machine, or one that is being provisioned
  connecting,     // until its agent has greeted
  bootstrapping,  // configured; until its workers have greeted
  ready,
  draining,  // told to shut down
  gone,      // for good
};

// The one table of transitions.
bool may_follow(NodeState from, NodeState to);

// Read by everybody, changed by Nodes alone.
struct Node {
  NodeId id;
  NodeState state = NodeState::absent;
  Time last_heard{};
  Time deadline = kNever;  // of the present state
  Time gone_at = kNever;   // when its cloud preempts the machine; no new tasks if known

  Instance instance;
  bool bought = false;  // the instance must be released

  // The machine after this one.
  int replacements = 0;               // so far
  InstanceId replaced;                // the previous machine, until the new one is ready
  bool buying_successor = false;      // requested while the present machine works
  std::optional<Instance> successor;  // provisioned: takes over when the present one is done
  bool waits_for_rate = false;        // absent until other machines are known to be gone

  // In order.
  Time connecting_at{};
  Time reached_at{};
  Time joined_at{};
  Time prepared_at{};
  Time ready_at{};
  std::size_t steps = 0;  // bootstrap steps reported so far
  double up_seconds = 0;  // from ready to the end, of all its machines

  // As its agent reported when it was ready.
  std::uint32_t slots = 0;
  std::uint16_t peer_port = 0;  // where other nodes connect; 0: nowhere

  bool is_alive() const { return state != NodeState::absent && state != NodeState::gone; }
  bool is_preempted() const { return gone_at != kNever; }
};

class Nodes {
 public:
  explicit Nodes(int count = 0);

  const Node& operator[](NodeId node) const {
    SKYWARD_CHECK(node.value < nodes_.size(), "node {}", node.value);
    return nodes_[node.value];
  }
  auto begin() const { return nodes_.begin(); }
  auto end() const { return nodes_.end(); }
  std::size_t size() const { return nodes_.size(); }
  bool any_alive() const;
  bool all_in(NodeState state) const;

  // Requests machines for this node and the following ones; on_answered() when the request is
  // answered.
  void ask(EngineEffects& effects, NodeId first, int count);
  void ask_replacement(EngineEffects& effects, NodeId node);
  void ask_successor(EngineEffects& effects, NodeId node);
  void on_answered() { --requests_; }
  int requests() const { return requests_; }  // pending
  // The requested machine was not provisioned. True: the node has none now.
  bool on_refused(NodeId node);

  // The machine is the node's from now on, and has until `deadline` for its agent to greet;
  // connect() connects to it.
  void launch(NodeId node, Instance instance, Time now, Time deadline);
  void connect(EngineEffects& effects, NodeId node);
  void set_successor(NodeId node, Instance instance);
  std::optional<Instance> take_successor(NodeId node);
  // It came too late; it is released with the others.
  void keep(NodeId node, Instance instance);

  // Its agent has greeted. False: the node no longer expects it.
  bool join(NodeId node, Time now, Time reached_at);
  // The steps of its bootstrap up to this one are done.
  void on_step(EngineEffects& effects, NodeId node, Time now, std::string_view step);
  void on_ready(EngineEffects& effects, NodeId node, Time now, std::uint32_t slots,
                std::uint16_t peer_port, Time deadline);
  void hear(NodeId node, Time now) { nodes_[node.value].last_heard = now; }
  void preempt(NodeId node, Time gone_at);

  // Its machine is lost or abandoned; take_machine() then hands it over for release.
  void lose(NodeId node, Time now);
  // Returns the machine to release; another one may follow.
  InstanceId take_machine(NodeId node);
  // No replacement is requested before then: the network may be down only for a moment.
  void pause(NodeId node, Time until);
  // ... before other machines are known to be gone. take_waiting(): the nodes that waited for this.
  void wait_for_rate(NodeId node);
  std::vector<NodeId> take_waiting();

  // No machine follows.
  void give_up(NodeId node, Time now);
  // ... and its machines are released at once.
  std::vector<InstanceId> dismiss(EngineEffects& effects, NodeId node, Time now);
  // Closing: the agent exits after running tasks have had this long.
  void shut_down(EngineEffects& effects, NodeId node, Time now, std::uint32_t grace_ms);
  // Cuts off agents that have not exited.
  void cut_off(EngineEffects& effects);
  std::vector<InstanceId> take_all_machines();

  // A node whose deadline has passed, if any. A ready node is late after `silence` without a
  // message.
  std::optional<NodeId> take_late(Time now, Duration silence);
  Time deadline() const { return alarms_.empty() ? kNever : alarms_.top().at; }

 private:
  Node& at(NodeId node);
  void set_state(Node& node, NodeState next);
  void set_deadline(Node& node, Time deadline);

  // Deadlines to look at, earliest first; stale entries are skipped.
  struct Alarm {
    Time at;
    NodeId node;
    bool operator>(const Alarm& other) const { return at > other.at; }
  };

  std::vector<Node> nodes_;
  int requests_ = 0;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
};

}  // namespace skyward::engine
