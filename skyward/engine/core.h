#pragma once

// The engine's decisions: plain state, and one on_* function for each thing that can happen.
// Synchronous, single-threaded; no I/O, no clock: `now` arrives with every event. What must happen
// next is asked of Effects.
//
// phase.h has the phases of a pool and which may follow which.
//
// Nodes keep their rank when their machine is replaced. The parts of the state own their fields:
// placement, releases, tasks and the money change only by their verbs. core_pool.cc decides about
// nodes, core_open.cc about opening, core_end.cc about the end, core_preempt.cc about nodes that
// their cloud takes back, core_spend.cc about what follows from what the pool costs.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/budget.h"
#include "skyward/engine/costs.h"
#include "skyward/engine/effects.h"
#include "skyward/engine/node_setup.h"
#include "skyward/engine/options.h"
#include "skyward/engine/phase.h"
#include "skyward/engine/placement.h"
#include "skyward/engine/releases.h"
#include "skyward/engine/task.h"
#include "skyward/engine/tasks.h"
#include "skyward/spec/id.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

enum class NodeState : std::uint8_t {
  absent,         // no machine, or one that is being bought
  connecting,     // until its agent has greeted
  bootstrapping,  // configured; until its workers have greeted
  ready,
  draining,  // told to shut down
  gone,      // given up for good
};

struct Node {
  NodeId id;
  NodeState state = NodeState::absent;
  Instance instance;
  bool bought = false;  // the instance is to be given back
  int replacements = 0;
  InstanceId replaced;  // machine that stood here before, until the new one is ready
  Time last_heard{}, deadline = kNever;  // the latter of the present state
  Time connecting_at{}, reached_at{}, joined_at{}, prepared_at{},
      ready_at{};         // each behind the one before
  std::size_t steps = 0;  // bootstrap steps reported so far
  std::uint32_t slots = 0;
  Time gone_at = kNever;              // by then its cloud takes the machine back: no new tasks
  std::optional<Instance> successor;  // bought: stands here when the present one is done
  bool buying_successor = false;
  bool waits_for_rate = false;  // absent until other machines are seen to be gone: check_rate()
  std::uint16_t peer_port = 0;  // where other nodes find its agent; 0: nowhere
  double up_seconds = 0;        // from ready to the end, of all its machines
};

struct State {
  PoolSpec spec;
  Options options;
  CheckedPhase phase;
  std::optional<Error> open_error;
  bool ready_told = false;  // opened() was called
  Placement placement;
  std::vector<Node> nodes;
  int provisioning = 0;  // provision calls in flight
  Releases releases;
  Tasks tasks;
  Costs costs;
  BillPoll bills;
  Budget budget;

  Time opened_at{}, ready_at{};
  Time lifetime_ends = kNever, closing_at{}, close_deadline = kNever;
  Time tell_wait_at = kNever;  // what closing waits for is said then

  // Deadlines to look at, earliest first; stale entries are skipped.
  struct Alarm {
    Time at;
    NodeId node;
    bool operator>(const Alarm& other) const { return at > other.at; }
  };
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms;
};

State make_state(PoolSpec spec, Options options);
// From the caller.
void on_open(State& state, Effects& effects, Time now);
void on_close(State& state, Effects& effects, Time now);
// The caller does not want to wait for the end that began: agents get no more time. False: it has
// not begun, or just now.
bool on_hurry(State& state, Effects& effects, Time now);
void on_submit(State& state, Effects& effects, Time now, TaskSpec task);
void on_cancel(State& state, Effects& effects, Time now, TaskId task);
void on_item_taken(State& state, Effects& effects, TaskId task, std::uint32_t count);
void on_keep_blob(State& state, Effects& effects, BlobId blob, bool keep);
PoolCost cost_until(State& state, Time now);

// From the provider.
void on_offers(State& state, Effects& effects, Time now, Result<std::vector<Offer>> offers);
void on_prepared(State& state, Effects& effects, Time now, Result<Cluster> cluster);
void on_provisioned(State& state, Effects& effects, Time now, NodeId first_node, int count,
                    Result<std::vector<Instance>> instances);
void on_terminated(State& state, Effects& effects, Time now, Status status);
void on_torn_down(State& state, Effects& effects, Time now, Status status);
void on_charges(State& state, Effects& effects, Time now, Result<std::vector<Charge>> charges);

// From a node.
void on_joined(State& state, Effects& effects, Time now, NodeId node, NodeSetup setup);
void on_message(State& state, Effects& effects, Time now, NodeId node, wire::Message message);
// The connection ended and will not come back, the agent refused us, or it never answered.
void on_node_lost(State& state, Effects& effects, Time now, NodeId node, Error why);

// Time has come to next_deadline() (or later).
void on_timer(State& state, Effects& effects, Time now);
Time next_deadline(const State& state);

// Every invariant, by CHECK. Walks everything: for tests and the simulator.
void sanity_check(const State& state);

}  // namespace skyward::engine
