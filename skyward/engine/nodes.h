#pragma once

// The pool's nodes. A node keeps its number when its machine is replaced; each of its machines goes
// through the states below, by one checked table. Nodes knows the state of each machine and the
// deadline of that state; the core decides what follows for tasks and money (core_loss.cc,
// core_close.cc), and machine_orders.h knows which machines are still to come. Pure;
// core_pool_test.cc and core_loss_test.cc show its rules.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/base/time.h"
#include "skyward/spec/id.h"
#include "skyward/spec/offer.h"
#include "skyward/wire/to_engine.h"

namespace skyward::engine {

class EngineEffects;

enum class NodeState : std::uint8_t {
  absent,         // no machine, or one that is being provisioned
  connecting,     // until its agent has greeted
  bootstrapping,  // configured; until its workers have greeted
  ready,
  stopping,  // told to shut down; of a preempted machine, another one may follow
  gone,      // for good
};

// The one table of transitions.
bool may_follow(NodeState from, NodeState to);

// Read by everybody, changed by Nodes alone.
struct alignas(64) Node {  // a message of its agent touches one cache line
  NodeId id;
  NodeState state = NodeState::absent;
  Time last_heard{};
  Time deadline = kNever;  // of the present state
  Time gone_at = kNever;   // when its cloud preempts the machine; no new tasks if known

  Instance instance;
  bool launched = false;  // the instance must be released

  std::string unreached;  // why its agent did not greet yet: the last attempt's reason

  InstanceId replaced;  // the previous machine, until the new one is ready

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
  std::uint16_t peer_port = 0;     // where other nodes connect; 0: nowhere
  std::uint64_t memory_bytes = 0;  // that it may use

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
  // Of those that are ready, what the smallest may use; 0 if none is, or one does not say.
  std::uint64_t least_memory() const;

  // The machine is the node's from now on, and has until `deadline` for its agent to greet;
  // connect() connects to it.
  void launch(NodeId node, Instance instance, Time now, Time deadline);
  void connect(EngineEffects& effects, NodeId node);
  // It came too late; it is released with the others.
  void keep(NodeId node, Instance instance);
  void note_unreached(NodeId node, std::string why);

  // Its agent has greeted. False: the node no longer expects it.
  bool join(NodeId node, Time now, Time reached_at);
  // The steps of its bootstrap up to this one are done.
  void on_step(EngineEffects& effects, NodeId node, Time now, std::string_view step);
  // `replacements`: of the node, with this machine.
  void on_ready(EngineEffects& effects, NodeId node, Time now, std::uint32_t slots,
                const wire::Ready& ready, int replacements, Time deadline);
  void hear(NodeId node, Time now) { nodes_[node.value].last_heard = now; }
  void preempt(NodeId node, Time gone_at);

  // Its machine is lost or abandoned; take_machine() then hands it over for release.
  void lose(NodeId node, Time now);
  // Returns the machine to release; another one may follow.
  InstanceId take_machine(NodeId node);
  // ... if there is one; none follows.
  std::optional<InstanceId> take_last_machine(NodeId node);
  // No replacement is requested before then: the network may be down only for a moment.
  void pause(NodeId node, Time until);

  // No machine follows.
  void give_up(NodeId node, Time now);
  // ... and its agent is cut off at once.
  void dismiss(EngineEffects& effects, NodeId node, Time now);
  // The agent is told to exit: what runs is interrupted, and has as long as a cancelled task to
  // clean up. The node is late at `deadline`.
  void shut_down(EngineEffects& effects, NodeId node, Time now, Time deadline = kNever);
  // Cuts off agents that have not exited.
  void cut_off(EngineEffects& effects);

  // A node whose deadline has passed, if any. A ready node is late after `silence` without a
  // message. Where `now` is much later than the deadline, this process was stopped: what nodes have
  // sent is read first.
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
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
};

}  // namespace skyward::engine
