#pragma once

// The engine's decisions: plain state, and one on_* function for each thing that can happen.
// Synchronous, single-threaded; no I/O, no clock: `now` arrives with every event. It asks
// EngineEffects for what must happen next.
//
// The state consists of parts. A part owns its fields, and only its methods change them. Apart from
// Costs and Budget, parts do not know each other: they return results, and the core decides what
// follows for the other parts, in one file for each story:
//
//     core.cc → core_open.cc → core_spend.cc → core_loss.cc → core_close.cc → the parts
//                                              core_preempt.cc
//
// Each may call those to its right. Why: docs/decisions/0015-parts-own-their-fields.md.

#include <optional>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/budget.h"
#include "skyward/engine/costs.h"
#include "skyward/engine/effects.h"
#include "skyward/engine/machine_orders.h"
#include "skyward/engine/node_setup.h"
#include "skyward/engine/nodes.h"
#include "skyward/engine/options.h"
#include "skyward/engine/phase.h"
#include "skyward/engine/placement.h"
#include "skyward/engine/releases.h"
#include "skyward/engine/task.h"
#include "skyward/engine/tasks.h"
#include "skyward/spec/id.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_cost.h"
#include "skyward/spec/pool_spec.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

struct EngineState {
  PoolSpec spec;
  Options options;
  CheckedPhase phase;

  Placement placement;   // where the machines come from
  Nodes nodes;           // which machine each node has, and its state
  MachineOrders orders;  // which machines are requested, and for which node
  Releases releases;     // machines to terminate
  Tasks tasks;           // from submission to answer
  Costs costs;           // what the machines cost
  BillPoll bills;        // when to ask the cloud for its charges
  Budget budget;         // what may be spent

  Time tell_cost_at = kNever;  // though there are no metrics

  int ran_nothing = 0;  // machines since a task has run, on each of which no worker ever began one

  // The pool's own times and answers.
  Time opened_at{};
  Time ready_at{};
  Time lifetime_ends = kNever;
  Time lifetime_ends_by_cloud = kNever;  // by the cloud's clock
  bool ready_told = false;               // opened() was called
  int lost_at_opening = 0;               // machines
  Time opening_ends = kNever;            // if one is
  std::optional<Error> open_error;       // why opening failed
  bool expired = false;                  // the timeout ended it, and there was money left

  // While it closes (core_close.cc).
  Time closing_at{};
  Time close_deadline = kNever;  // agents that have not ended are cut off
  Time tell_wait_at = kNever;    // report what closing waits for
  bool found_standing = false;   // machines of failed launches
};

EngineState make_state(PoolSpec spec, Options options);
// The node's machines, for release: its own, and a successor that waits.
std::vector<InstanceId> take_machines(EngineState& state, NodeId node);
// The inputs of the budget's judgement.
Budget::Facts budget_facts(const EngineState& state, Time now);

// From the caller.
void on_open(EngineState& state, EngineEffects& effects, Time now);
void on_close(EngineState& state, EngineEffects& effects, Time now);
// The caller does not want to wait for the close in progress: agents get no more time. False: none
// is in progress, or it has only just begun.
bool on_hurry(EngineState& state, EngineEffects& effects, Time now);
void on_submit(EngineState& state, EngineEffects& effects, Time now, TaskId task, wire::Call call);
void on_cancel(EngineState& state, EngineEffects& effects, Time now, TaskId task);
void on_item_taken(EngineState& state, EngineEffects& effects, TaskId task, std::uint32_t count);
void on_keep_blob(EngineState& state, EngineEffects& effects, BlobId blob, bool keep);
// `cloud_now`: now, by the cloud's clock.
PoolCost cost_until(EngineState& state, Time now, Time cloud_now);

// From the provider.
void on_offers(EngineState& state, EngineEffects& effects, Time now,
               Result<std::vector<Offer>> offers);
void on_prepared(EngineState& state, EngineEffects& effects, Time now, Result<Cluster> cluster);
void on_provisioned(EngineState& state, EngineEffects& effects, Time now, NodeId first_node,
                    int count, Result<std::vector<Instance>> instances);
void on_terminated(EngineState& state, EngineEffects& effects, Time now, Status status);
// `standing`: after a failure, the machines that are not known to be gone.
void on_torn_down(EngineState& state, EngineEffects& effects, Time now, Status status,
                  const std::vector<InstanceId>& standing = {});
void on_charges(EngineState& state, EngineEffects& effects, Time now,
                Result<std::vector<Charge>> charges);

// From a node.
void on_joined(EngineState& state, EngineEffects& effects, Time now, NodeId node, NodeSetup setup);
void on_message(EngineState& state, EngineEffects& effects, Time now, NodeId node,
                wire::Message message);
// Before anything else that happens at `now`: the time by the cloud's clock. If that has jumped,
// money was spent in between.
void on_clocks(EngineState& state, EngineEffects& effects, Time now, Time cloud_now);
// This computer has no network: the node is not late.
void on_offline(EngineState& state, Time now, NodeId node);
// An attempt to reach it for the first time has failed; another follows.
void on_unreached(EngineState& state, NodeId node, const Error& why);
// The connection is lost for good, the agent refused it, or never answered. `ran_nothing`: no
// worker of the machine has ever begun a task.
void on_node_lost(EngineState& state, EngineEffects& effects, Time now, NodeId node, Error why,
                  bool ran_nothing = false);

// Time has come to next_deadline() (or later).
void on_timer(EngineState& state, EngineEffects& effects, Time now);
Time next_deadline(const EngineState& state);

// Every invariant, by CHECK. Walks everything: for tests and the simulator.
void sanity_check(const EngineState& state);

}  // namespace skyward::engine
