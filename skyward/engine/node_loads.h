#pragma once

// Which tasks each node has, and which node gets the next one. A node gets a task for each free
// slot, and some more while tasks are short beside the way to the node, so that it never waits for
// the network. Tasks that were sent too early are recalled when another node becomes idle. A part
// of the core: pure; core_task_test.cc shows its rules.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/function_cache.h"
#include "skyward/engine/task.h"
#include "skyward/engine/task_list.h"
#include "skyward/spec/cost_event.h"
#include "skyward/spec/id.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineEffects;

// Whether a node takes tasks.
enum class Intake : std::uint8_t {
  none,       // its agent is not ready
  finishing,  // its machine will be gone soon: no new tasks, but those for what runs there
  open,
};

// No way to a node and back counts as longer.
inline constexpr Duration kMaxWay = std::chrono::seconds(1);

// Calls that failed on a node in a row, and how many ended elsewhere before.
struct FailedRow {
  std::uint64_t ok_before = 0;
  std::uint64_t failed_before = 0;
  std::uint32_t calls = 0;
  bool told = false;  // the caller knows
  Duration aside{};   // for how long it was set aside last
};

// What ran on a node, for its receipt.
struct Done {
  std::uint64_t tasks = 0;
  std::uint64_t failed = 0;
  double busy_seconds = 0;  // time inside the user's functions, over all slots
};

// Hot fields come first. The nodes of a large pool do not fit in the cache; sending or answering a
// task touches only the first three cache lines of its node.
struct alignas(64) NodeLoad {
  NodeId id;
  Intake intake = Intake::none;
  bool set_aside = false;          // gets no tasks from the queue for now
  bool failing = false;            // its last call failed: see failed_row
  bool recalling = false;          // a recall is pending
  bool listed_free = false;        // in Loads::free_
  bool listed_spare = false;       // in Loads::spare_
  bool listed_loaded = false;      // in Loads::loaded_ ...
  std::uint32_t loaded_place = 0;  // ... there

  std::uint32_t slots = 0;
  std::uint32_t outstanding = 0;  // tasks sent and not answered
  std::uint32_t bound = 0;        // of these, those for one worker whose callers still wait
  std::uint32_t answers = 0;      // of the present machine: those that note_way() has seen
  TaskList tasks;                 // of these, those whose callers still wait; Tasks has them
  Time busy_since{};              // when the first of the outstanding tasks was sent
  Time answered_at{};             // when the last answer arrived
  Duration way = kMaxWay;         // shortest time that an answer took beyond its run
  Done done;
  // Waiting for this node only, and those that wait for one of its workers; may name tasks that are
  // gone.
  std::list<TaskId> pinned;
  std::list<TaskId> bound_later;
  FunctionCache functions;

  Work work;                              // of the present machine, until busy_since
  FailedRow failed_row;                   // while `failing`
  InstanceId instance;                    // where the tasks are
  std::shared_ptr<const Error> given_up;  // why it will not get another machine

  bool is_open() const { return intake == Intake::open; }
  bool takes_tasks() const { return is_open() && !set_aside; }
  // The task has been answered: how long does the way take?
  void note_way(const Task& task, const wire::TaskResult& result, Time now);
  // To the node and back, once it is known; 0 if kPrefetchWork covers it.
  Duration known_way() const;
};

class Loads {
 public:
  explicit Loads(std::size_t nodes = 0);
  // The most tasks that one node has at a time, and how many workers.
  void limit(std::uint32_t max_given, std::uint32_t workers) {
    max_given_ = max_given;
    workers_ = workers;
  }

  NodeLoad& at(NodeId node) {
    SKYWARD_CHECK(node.value < nodes_.size(), "node {}", node.value);
    return nodes_[node.value];
  }
  const NodeLoad& at(NodeId node) const { return nodes_[node.value]; }
  std::vector<NodeLoad>& all() { return nodes_; }
  const std::vector<NodeLoad>& all() const { return nodes_; }

  // The node's free capacity has changed. A `warm` node, which has just become idle, comes first: a
  // caller that waits for each answer stays on the node whose caches hold its function. A batch
  // still spreads: a node that has taken a task queues behind the others.
  void list(NodeLoad& node, bool warm = false);
  // Whether a task could begin there at once, as far as is known here.
  bool has_free_slot(const NodeLoad& node) const {
    return node.takes_tasks() && occupied(node) < node.slots && node.outstanding < max_given_;
  }
  // Whether to send it one more task that can run there only, on any worker.
  bool has_room_for_pinned(const NodeLoad& node) const {
    return node.outstanding < max_given_ &&
           node.outstanding - node.bound < node.slots + prefetch_depth(node);
  }
  // Next node with a free slot, else one with room for prefetching; null when all are full.
  NodeLoad* take();
  // Its machine is gone, with its tasks.
  void clear(NodeLoad& node);

  // None of its workers can begin a task: it is not listed for a while.
  void set_aside(NodeLoad& node, Time now) { set_aside_for(node, now, kSetAside); }
  // Its calls fail: not for long at first, since a row of calls that fail anywhere may have come to
  // it by chance.
  void set_failing_aside(NodeLoad& node, Time now);
  // aside_until() has come: lists the first of those nodes again.
  void bring_back();
  Time aside_until() const { return aside_.empty() ? kNever : aside_.front().first; }
  // Lists all of them if no other node takes tasks; returns whether it did.
  bool bring_all_back();

  // Recalls every task that no worker of the node has begun.
  void recall_all(EngineEffects& effects, NodeLoad& node);
  // No task waits in the queue: schedules a recall from loaded nodes, in case others stay idle.
  void plan_recall(Time now);
  // recall_at() has come.
  void recall(EngineEffects& effects, bool tasks_wait);
  // The pool closes: no more recalls.
  void stop_recalls();
  // The recalled tasks have arrived; `useful`: some of them can run elsewhere.
  void on_recalled(bool useful);
  Time recall_at() const { return recall_at_; }

  // Counts how a call on the node ended. Returns whether calls fail there that do not fail on other
  // nodes: so many in a row, while others completed theirs, that chance does not explain it.
  bool fails_alone(NodeLoad& node, wire::TaskStatus status);

  void note_run(const wire::TaskResult& result);
  // The mean run time of recent tasks; negative: not known yet.
  Duration mean_run() const { return Duration(static_cast<std::int64_t>(mean_run_ns_)); }

 private:
  static constexpr Duration kSetAside = std::chrono::seconds(30);
  static constexpr Duration kFirstSetAside = std::chrono::seconds(1);  // where calls fail

  void set_aside_for(NodeLoad& node, Time now, Duration pause);
  void list_loaded(NodeLoad& node);
  void unlist_loaded(NodeLoad& node);
  std::uint32_t prefetch_depth(const NodeLoad& node) const;
  bool has_spare_room(const NodeLoad& node) const;
  // Its slots that have a task. Of the tasks for one worker, all but one wait for the same slot.
  std::uint32_t occupied(const NodeLoad& node) const {
    return node.outstanding - (node.bound > workers_ ? node.bound - workers_ : 0);
  }

  std::vector<NodeLoad> nodes_;
  std::deque<NodeId> free_;                    // has_free_slot()
  std::deque<NodeId> spare_;                   // room for prefetch
  std::vector<NodeId> loaded_;                 // occupied() > slots; in no order
  std::deque<std::pair<Time, NodeId>> aside_;  // by the time when they are listed again
  std::uint32_t max_given_ = kMaxTasksGiven;
  std::uint32_t workers_ = 1;
  std::uint64_t ok_ = 0;  // calls that ended so, on all nodes
  std::uint64_t failed_ = 0;
  double mean_run_ns_ = -1;
  Time recall_at_ = kNever;
  Duration recall_pause_{};  // grows while recalls return nothing
};

}  // namespace skyward::engine
