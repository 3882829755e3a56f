#pragma once

// What core_pool.cc and core_task.cc ask of each other. Not for anybody else.

#include "skyward/engine/core.h"

namespace skyward::engine {

// Hands waiting tasks to nodes that have room.
void dispatch(State& state, Effects& effects, Time now);
// The node can take tasks: those that waited for it go out, then it joins the free ones.
void node_opened(State& state, Effects& effects, Time now, Node& node);
// The node is gone: its tasks go back to the queue, or fail with `why` when they may not run again.
void return_tasks(State& state, Effects& effects, Time now, Node& node, const Error& why);
// Everything that waits or runs ends with `why`.
void fail_all_tasks(State& state, Effects& effects, const Error& why);
// A task that waits, for this node or in the queue, ends with `why`. One that is gone already is
// skipped.
void fail_waiting_task(State& state, Effects& effects, TaskId task, const Error& why);
// No node is left to wait for: what is in the queue can never run.
void fail_waiting_tasks(State& state, Effects& effects, const Error& why);

void on_task_result(State& state, Effects& effects, Time now, Node& node, wire::TaskResult result);
void on_stream_item(State& state, Effects& effects, Node& node, wire::StreamItem item);
void on_recalled(State& state, Effects& effects, Time now, Node& node,
                 const wire::Recalled& recalled);
void check_steal(State& state, Effects& effects, Time now);
void check_cancelled(State& state, Effects& effects, TaskId task);

Node& node_at(State& state, NodeId id);

}  // namespace skyward::engine
