#pragma once

// What each node has of the pool's tasks, and which node gets the next one. A node gets a task for
// each free slot, and a little more than that while tasks are short, so that the wire is never
// empty. What was given too early is recalled when another node falls idle. A part of the core:
// pure, and told in core_task_test.cc.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/base/time.h"
#include "skyward/engine/function_cache.h"
#include "skyward/engine/task.h"
#include "skyward/spec/cost_event.h"
#include "skyward/spec/id.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineEffects;

// Whether a node takes tasks.
enum class Intake : std::uint8_t {
  none,       // no agent that is ready
  finishing,  // what it has, and no new ones: its machine goes soon
  open,
};

struct NodeLoad {
  NodeId id;
  Intake intake = Intake::none;
  bool given_up = false;      // no machine will come any more
  bool recalling = false;     // asked for tasks back, and not answered
  bool listed_free = false;   // in Loads::free_
  bool listed_spare = false;  // in Loads::spare_

  std::uint32_t slots = 0;
  std::uint32_t outstanding = 0;  // tasks given and not answered
  Time busy_since{};              // the first of the outstanding was given
  Time answered_at{};             // the last answer came
  Work work;                      // of the present machine, until busy_since

  std::unordered_set<TaskId> tasks;  // outstanding, and their caller still waits for them
  FunctionCache functions;
  InstanceId instance;        // where the tasks are
  std::deque<TaskId> pinned;  // waiting for this very node; may name tasks that are gone
  NodeReceipt receipt;

  bool is_open() const { return intake == Intake::open; }
};

class Loads {
 public:
  explicit Loads(std::size_t nodes = 0);
  // So many tasks to one node at a time, at most.
  void limit(std::uint32_t max_given) { max_given_ = max_given; }

  NodeLoad& at(NodeId node) {
    SKYWARD_CHECK(node.value < nodes_.size(), "node {}", node.value);
    return nodes_[node.value];
  }
  const NodeLoad& at(NodeId node) const { return nodes_[node.value]; }
  std::vector<NodeLoad>& all() { return nodes_; }
  const std::vector<NodeLoad>& all() const { return nodes_; }

  // The node's room has changed. One that is `warm`, idle since this moment, comes first: a caller
  // that waits for each answer stays on the node whose caches hold his function. A batch still
  // spreads: a node that has taken a task queues behind the others.
  void list(NodeLoad& node, bool warm = false);
  // Next node with a free slot, else one with room for prefetching; null when all are full.
  NodeLoad* take();
  // Its machine is gone, and has nothing any more.
  void clear(NodeLoad& node);

  // Everything that no worker of the node has begun comes back.
  void recall_all(EngineEffects& effects, NodeLoad& node);
  // Nothing waits: nodes that have too much will be asked for it, when others stay idle.
  void plan_recall(Time now);
  // It is recall_at().
  void recall(EngineEffects& effects, bool tasks_wait);
  // The pool closes: nothing is asked for any more.
  void stop_recalls();
  // What was recalled has come; `useful`: some of it may run elsewhere.
  void on_recalled(bool useful);
  Time recall_at() const { return recall_at_; }

  void note_run(const wire::TaskResult& result);
  // Of recent tasks; negative: not known yet.
  Duration mean_run() const { return Duration(static_cast<std::int64_t>(mean_run_ns_)); }

 private:
  std::uint32_t prefetch_depth(const NodeLoad& node) const;
  bool has_spare_room(const NodeLoad& node) const;

  std::vector<NodeLoad> nodes_;
  std::deque<NodeId> free_;            // outstanding < slots
  std::deque<NodeId> spare_;           // room for prefetch
  std::unordered_set<NodeId> loaded_;  // outstanding > slots
  std::uint32_t max_given_ = kMaxTasksGiven;
  double mean_run_ns_ = -1;
  Time recall_at_ = kNever;
  Duration recall_pause_{};  // grows while recalls bring nothing
};

}  // namespace skyward::engine
