#pragma once

// The pool's tasks, from their submission to their answer. They wait in one queue, or for the very
// node that they are pinned to. A task whose node is lost waits again, until it was tried often
// enough. Which nodes there are is told by the core; of a node's life Tasks knows only whether it
// takes tasks. A part of the core: pure, and told in core_task_test.cc.

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/blobs.h"
#include "skyward/engine/effects.h"
#include "skyward/engine/node_loads.h"
#include "skyward/engine/task.h"
#include "skyward/spec/cost_event.h"
#include "skyward/spec/id.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/call.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class Tasks {
 public:
  struct Limits {
    std::uint32_t max_tasks_given = kMaxTasksGiven;                 // to one node at a time
    std::uint64_t max_kept_function_bytes = kMaxKeptFunctionBytes;  // on one node
    bool agents_talk = false;                                       // see Spreads
    bool tell_starts = true;                                        // by TaskStarted
  };

  explicit Tasks(std::size_t nodes = 0) : loads_(nodes), blobs_(nodes) {}

  // Tasks may come.
  void open(const Limits& limits);
  // For want of nodes, money or time nothing is begun any more: every task that comes ends with
  // `why` ...
  void refuse(Error why) { abandoned_ = std::move(why); }
  // ... and those that wait, too. What was said before goes on to hold.
  void abandon(EngineEffects& effects, const Error& why);
  // The pool closes: everything that waits or runs ends.
  void close(EngineEffects& effects, Time now);
  const std::optional<Error>& abandoned() const { return abandoned_; }

  // From the caller.
  void submit(EngineEffects& effects, Time now, TaskId task, wire::Call&& call);
  void cancel(EngineEffects& effects, Time now, TaskId task);
  void take_item(EngineEffects& effects, TaskId task, std::uint32_t count);

  // The node takes tasks: those that waited for it go out.
  void open_node(EngineEffects& effects, Time now, NodeId node, std::uint32_t slots, PeerNode peer);
  // Its machine goes soon: it gets no new tasks.
  void stop_node(NodeId node);
  // Everything that no worker of the node has begun comes back.
  void recall(EngineEffects& effects, NodeId node);
  // Its machine is gone: its tasks go back to the queue, or fail with `why` when they may not run
  // again. Returns how long the machine has worked.
  Work lose_node(EngineEffects& effects, Time now, NodeId node, const Error& why);
  // No machine comes after this one: tasks that wait for the node end with `why`.
  void give_up_node(EngineEffects& effects, NodeId node, const InstanceId& last, const Error& why);

  // From a node's agent. What it may say is held by core_check.cc.
  void on_result(EngineEffects& effects, Time now, NodeId node, wire::TaskResult&& result);
  void on_item(EngineEffects& effects, NodeId node, wire::StreamItem item);
  void on_recalled(EngineEffects& effects, Time now, NodeId node, const wire::Recalled& recalled);

  // It is deadline(), or later.
  void on_timer(EngineEffects& effects, Time now);
  Time deadline() const;

  // Large arguments: what the caller keeps, and where nodes get them from.
  Blobs& blobs() { return blobs_; }
  const Blobs& blobs() const { return blobs_; }

  // How long the node's present machine has worked, until now.
  Work work(Time now, NodeId node);
  bool is_idle(NodeId node) const { return loads_.at(node).outstanding == 0; }
  const Task* find(TaskId task) const;
  const NodeLoad& on(NodeId node) const { return loads_.at(node); }
  Duration mean_run() const { return loads_.mean_run(); }  // negative: not known yet
  std::size_t size() const { return tasks_.size(); }

  struct FirstCall {
    Time submitted{};
    Time answered{};
    std::uint64_t run_ns = 0;  // of the task that was answered first
  };
  const FirstCall& first_call() const { return first_call_; }

  // Every invariant, by CHECK.
  void check() const;

 private:
  void dispatch(EngineEffects& effects, Time now);
  void give_pinned(EngineEffects& effects, Time now, NodeLoad& node);
  void assign(EngineEffects& effects, Time now, NodeLoad& node, Task& task);
  void enqueue_first(const Task& task);
  void finish(EngineEffects& effects, TaskId task, wire::Outcome outcome);
  void fail_waiting(EngineEffects& effects, const Error& why);
  void give_up_cancelled(EngineEffects& effects, TaskId task);

  Limits limits_;
  bool open_ = false;
  std::optional<Error> abandoned_;
  std::unordered_map<TaskId, Task> tasks_;
  std::deque<TaskId> queue_;  // may name tasks that are gone: skipped
  Loads loads_;
  Blobs blobs_;
  std::deque<std::pair<Time, TaskId>> cancelled_;  // by then the agent has confirmed; oldest first
  FirstCall first_call_;
};

}  // namespace skyward::engine
