#pragma once

// What the parts of the core ask of each other. Not for anybody else.

#include "skyward/engine/core.h"

namespace skyward::engine {

Node& node_at(State& state, NodeId id);

// core_check.cc
// Whether the node's agent may say this now. Fails with `lost`.
Status check_message(const State& state, const Node& node, const wire::Message& message);

// core_pool.cc
// The node can take tasks, unless its cloud takes its machine back.
void open_node(State& state, Effects& effects, Time now, Node& node);
void set_deadline(State& state, Node& node, Time deadline);
// Tells of a machine that was bought for the node.
void announce_instance(State& state, Effects& effects, const Node& node, const Instance& instance);
// It stands in the node's place from now on, and is dialled by connect_node().
void launch_instance(State& state, Node& node, Instance instance, Time now);
void connect_node(Effects& effects, Node& node);

// Asks for machines for this node and those after it.
void buy(State& state, Effects& effects, Time now, int count, NodeId first_node);
// One more machine for a node that has none, when it can be paid; otherwise the node is given up.
// If machines that end still cost too much beside it, that is seen to when they are gone.
void buy_replacement(State& state, Effects& effects, Time now, Node& node);
// Its machine goes, and none comes after it.
void dismiss(State& state, Effects& effects, Time now, Node& node);
// Fewer machines cost money than before.
void buy_what_waited(State& state, Effects& effects, Time now);
bool is_alive(const Node& node);

// core_end.cc
// Opening has failed: gives everything back, then tells the caller why.
void fail_open(State& state, Effects& effects, Time now, Error why);
void start_closing(State& state, Effects& effects, Time now);
// Nothing is left that could still answer: the machines go.
void give_back_when_idle(State& state, Effects& effects);
// The pool's timeout. Calls that come later are told as well.
void end_lifetime(State& state, Effects& effects, Time now);
// Agents that have not ended by now are cut off.
void check_close(State& state, Effects& effects, Time now);
// Says what closing waits for, when that takes long.
void check_wait(State& state, Effects& effects, Time now);

// core_open.cc
// The chosen region has no machines: others are asked, or opening fails.
void look_elsewhere(State& state, Effects& effects, Time now, Error why);
// What was prepared in the region before is removed, or was not.
void on_moved_out(State& state, Effects& effects, Time now, const Status& removed);

// core_spend.cc
Budget::Facts budget_facts(const State& state, Time now);
// The node's machine has done its work; it is in the book after this.
void note_work(State& state, Time now, Node& node);
// Machines are there: what they cost is followed from now on.
void begin_to_pay(State& state, Effects& effects, Time now);
// The machines cost something else than before, or time has passed: acts on the budget.
void look_at_budget(State& state, Effects& effects, Time now);
// The cloud's bills are due.
void ask_for_bills(State& state, Effects& effects, Time now);
// Something has ended on the node, while the pool runs out of money.
void dismiss_when_done(State& state, Effects& effects, Time now, Node& node);

// core_preempt.cc
void on_preempted(State& state, Effects& effects, Time now, Node& node,
                  const wire::Preempted& notice);
// A node that was told of its end before it was ready is ready now.
void prepare_successor(State& state, Effects& effects, Time now, Node& node);
// The machine that was bought for it has come.
void on_successor(State& state, Effects& effects, Time now, Node& node, Instance instance);
void on_no_successor(State& state, Effects& effects, Node& node, const Error& why);
// The present machine has answered something: when it has nothing left to do, it goes.
void retire_when_done(State& state, Effects& effects, Time now, Node& node);

}  // namespace skyward::engine
