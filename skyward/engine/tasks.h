#pragma once

// The pool's tasks, from submission to answer. They wait in one queue, or for the node that they
// are pinned to. A task whose node is lost goes back to the queue, for a limited number of
// attempts, unless it needs those on the other nodes (CallOptions::together). Tasks knows of a node
// only whether it takes tasks; the core says so. A part of the core: pure; core_task_test.cc shows
// its rules.

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
#include "skyward/engine/rendezvous.h"
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
    std::uint32_t workers_per_node = 1;
    bool agents_talk = false;  // see Spreads
    bool tell_starts = true;   // by TaskStarted
  };

  explicit Tasks(std::size_t nodes = 0) : rendezvous_(nodes), loads_(nodes), blobs_(nodes) {}
  // Its nodes point to its tasks.
  Tasks(Tasks&&) = default;
  Tasks& operator=(Tasks&&) = default;
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;
  ~Tasks() = default;

  // Tasks may be submitted from now on.
  void open(const Limits& limits);
  // Without nodes, money or time no task starts any more: every new task fails with `why` ...
  void refuse(Error why) { abandoned_ = std::move(why); }
  // ... and so does every waiting one. An earlier reason still holds.
  void abandon(EngineEffects& effects, const Error& why);
  // The pool closes: ends every waiting and running task.
  void close(EngineEffects& effects, Time now);
  const std::optional<Error>& abandoned() const { return abandoned_; }

  // From the caller.
  void submit(EngineEffects& effects, Time now, TaskId task, wire::Call&& call);
  void cancel(EngineEffects& effects, Time now, TaskId task);
  void take_item(EngineEffects& effects, TaskId task, std::uint32_t count);

  // The node takes tasks: sends those that waited for it.
  void open_node(EngineEffects& effects, Time now, NodeId node, std::uint32_t slots, PeerNode peer);
  // Its machine will be gone soon: it gets no new tasks.
  void stop_node(NodeId node);
  // Recalls every task that no worker of the node has begun.
  void recall(EngineEffects& effects, NodeId node);
  // Its machine is gone: its tasks go back to the queue, or fail with `why` if they may not run
  // again. Returns how long the machine has run tasks.
  Work lose_node(EngineEffects& effects, Time now, NodeId node, const Error& why);
  // The node will not get another machine: tasks that wait for it, and all later ones, fail with
  // `why`.
  void give_up_node(EngineEffects& effects, NodeId node, const Error& why);

  // From a node's agent. core_check.cc has checked that it may send this.
  void on_result(EngineEffects& effects, Time now, NodeId node, wire::TaskResult&& result);
  void on_item(EngineEffects& effects, NodeId node, wire::StreamItem item);
  void on_recalled(EngineEffects& effects, Time now, NodeId node, const wire::Recalled& recalled);

  // deadline() has come.
  void on_timer(EngineEffects& effects, Time now);
  Time deadline() const;

  // Large arguments: which of them the caller keeps, and where nodes get them from.
  Blobs& blobs() { return blobs_; }
  const Blobs& blobs() const { return blobs_; }

  // How long the node's present machine has run tasks, until now.
  Work work(Time now, NodeId node);
  bool is_idle(NodeId node) const { return loads_.at(node).outstanding == 0; }
  const Task* find(TaskId task) const;
  const NodeLoad& on(NodeId node) const { return loads_.at(node); }
  Duration mean_run() const { return loads_.mean_run(); }  // negative: not known yet
  std::size_t size() const { return tasks_.size(); }

  struct FirstCall {
    Time submitted{};
    Time answered{};
    std::uint64_t run_ns = 0;  // of the first answered task
  };
  const FirstCall& first_call() const { return first_call_; }

  // Every invariant, by CHECK.
  void check() const;

 private:
  void dispatch(EngineEffects& effects, Time now);
  void pin(EngineEffects& effects, Time now, NodeLoad& node, const Task& task);
  void give_pinned(EngineEffects& effects, Time now, NodeLoad& node);
  void give_together(EngineEffects& effects, Time now);
  void assign(EngineEffects& effects, Time now, NodeLoad& node, Task& task);
  bool may_begin_elsewhere(const NodeLoad& node, const Task& task) const;
  void enqueue_first(const Task& task);
  void blame(EngineEffects& effects, Time now, NodeLoad& node);
  void finish(EngineEffects& effects, TaskId task, wire::Outcome outcome);
  void answer_early(EngineEffects& effects, Task& task, Error why);
  void fail_waiting(EngineEffects& effects, const Error& why);
  void lose_pinned(EngineEffects& effects, NodeLoad& node, const Error& why);
  void set_intake(NodeLoad& node, Intake intake);
  void give_up_cancelled(EngineEffects& effects, TaskId task);

  Limits limits_;
  bool open_ = false;
  std::optional<Error> abandoned_;
  std::unordered_map<TaskId, Task> tasks_;
  std::deque<TaskId> queue_;  // may name tasks that are gone: skipped
  Rendezvous rendezvous_;     // of tasks that wait for all nodes
  Loads loads_;
  Blobs blobs_;
  std::deque<std::pair<Time, TaskId>>
      cancelled_;  // when the agent must have confirmed; oldest first
  FirstCall first_call_;
};

}  // namespace skyward::engine
