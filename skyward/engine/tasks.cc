#include "skyward/engine/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/engine/outcomes.h"
#include "skyward/wire/group.h"

namespace skyward::engine {
namespace {

// A table that many tasks have made larger is not kept for the next few.
constexpr std::size_t kIdleBuckets = 100'000;

void retain_blobs(EngineEffects& effects, const Task& task) {
  for_each_blob(task.call.arguments, [&](const wire::Blob& blob) { effects.retain_blob(blob); });
}

// Its process has died, or none starts.
bool is_worker_lost(wire::TaskStatus status) {
  return status == wire::TaskStatus::worker_died || status == wire::TaskStatus::not_begun;
}

// Makes room on the node for a function that it gets.
void drop_old_functions(EngineEffects& effects, NodeLoad& node, std::uint64_t max_bytes) {
  wire::DropFunctions functions;
  wire::DropBlobs bodies;
  for (const auto& [function, blob] : node.functions.shrink(max_bytes)) {
    functions.functions.push_back(function);
    if (blob != BlobId{}) bodies.blobs.push_back(blob);
  }
  if (!functions.functions.empty()) effects.send(node.id, std::move(functions));
  if (!bodies.blobs.empty()) effects.send(node.id, std::move(bodies));
}

// A task could not begin on the node, perhaps because it had no room for the function's body.
void lose_body(EngineEffects& effects, NodeLoad& node, const Task& task) {
  const BlobId body = node.functions.lose(task.call.function->id);
  if (body != BlobId{}) effects.send(node.id, wire::DropBlobs{{body}});
}

// One task less on it.
void take_off(NodeLoad& node, Time now) {
  if (--node.outstanding == 0) node.work.useful += now - node.busy_since;
}

// The node's word about the task is awaited no longer.
void forget_task(NodeLoad& node, Task& task) {
  node.tasks.remove(task);
  if (task.is_bound()) --node.bound;
  node.functions.release(task.call.function->id);
}

// Where the task waits for its node.
auto& waiting_list(auto& node, const Task& task) {
  return task.is_bound() ? node.bound_later : node.pinned;
}

void unassign(NodeLoad& node, Time now, Task& task) {
  forget_task(node, task);
  take_off(node, now);
  task.assigned = false;
}

// Whether a node whose machine will be gone soon gets it all the same.
bool may_still_go(const NodeLoad& node, const Task& task) {
  return task.call.options.while_preempted && node.intake == Intake::finishing;
}

// Tasks that run when the pool closes are cut: they have failed, after so long.
void count_cut_tasks(NodeLoad& node, Time now) {
  const auto running = std::min<std::size_t>(node.tasks.size(), node.slots);
  if (running == 0) return;
  node.done.tasks += running;
  node.done.failed += running;
  node.done.busy_seconds +=
      static_cast<double>(running) * seconds(now - std::max(node.busy_since, node.answered_at));
}

}  // namespace

// ------------------------------------------------------------------------------------ the pool

void Tasks::open(const Limits& limits) {
  open_ = true;
  limits_ = limits;
  loads_.limit(limits.max_tasks_given, limits.workers_per_node);
  blobs_.spreads().let_agents_talk(limits.agents_talk);
}

void Tasks::abandon(EngineEffects& effects, const Error& why) {
  if (!abandoned_) refuse(why);
  fail_waiting(effects, *abandoned_);
}

void Tasks::close(EngineEffects& effects, Time now) {
  open_ = false;
  for (NodeLoad& node : loads_.all()) count_cut_tasks(node, now);
  const Error why = abandoned_.value_or(Error{ErrorKind::cancelled, "the pool was closed", {}});
  std::vector<TaskId> ids;
  for (const auto& [id, task] : tasks_) ids.push_back(id);
  std::ranges::sort(ids);
  for (const TaskId id : ids) {
    Task& task = tasks_.at(id);
    if (task.assigned) {
      retain_blobs(effects, task);
      forget_task(loads_.at(task.node), task);
    }
    finish(effects, id, failure(why));
  }
  queue_.clear();
  rendezvous_.take();
  loads_.stop_recalls();
  for (const NodeLoad& node : loads_.all()) blobs_.shut_node(node.id);
}

// ------------------------------------------------------------------------------------ the queue

void Tasks::dispatch(EngineEffects& effects, Time now) {
  if (!open_) return;
  if (abandoned_) return fail_waiting(effects, *abandoned_);
  while (!queue_.empty()) {
    const auto found = tasks_.find(queue_.front());
    if (found == tasks_.end() || found->second.assigned) {  // cancelled while it waited
      queue_.pop_front();
      continue;
    }
    NodeLoad* node = loads_.take();
    if (node == nullptr && loads_.bring_all_back()) node = loads_.take();
    if (node == nullptr) return;
    queue_.pop_front();
    assign(effects, now, *node, found->second);
    loads_.list(*node);
  }
  loads_.plan_recall(now);
}

// Tasks for one of its workers go to the node at once, busy or not: the agent knows best which
// comes first. No more than a link can bear, though. Others that can run there only wait here until
// they can begin: when the node is lost, what was sent loses an attempt.
void Tasks::give_pinned(EngineEffects& effects, Time now, NodeLoad& node) {
  if (!node.is_open() || abandoned_) return;
  const auto give_first = [&](std::list<TaskId>& waiting) {
    const auto found = tasks_.find(waiting.front());
    waiting.pop_front();
    if (found != tasks_.end()) assign(effects, now, node, found->second);
  };
  while (!node.bound_later.empty() && node.outstanding < limits_.max_tasks_given)
    give_first(node.bound_later);
  while (!node.pinned.empty() && loads_.has_room_for_pinned(node)) give_first(node.pinned);
}

void Tasks::assign(EngineEffects& effects, Time now, NodeLoad& node, Task& task) {
  task.assigned = true;
  task.node = node.id;
  task.sent = now;
  node.tasks.add(task);
  if (task.is_bound()) ++node.bound;
  if (node.outstanding++ == 0) node.busy_since = now;
  blobs_.give(effects, node.id, task.call.arguments);

  wire::RunTask run;
  run.task = task.id;
  run.attempt = task.attempt;
  run.worker = task.call.options.worker;
  run.function = task.call.function->id;
  if (node.functions.use(task.call.function->id, task.call.function->bytes)) {
    run.body = task.call.function->bytes;
    blobs_.give_body(effects, node.id, run.body);
    drop_old_functions(effects, node, limits_.max_kept_function_bytes);
  }
  run.arguments = task.call.arguments;
  run.timeout_ms = static_cast<std::uint64_t>(
      std::chrono::ceil<std::chrono::milliseconds>(task.call.options.timeout).count());
  run.stream_window = task.call.options.stream_window;
  run.group = task.call.options.group;
  effects.send(node.id, std::move(run));
  if (!limits_.tell_starts) return;
  effects.emit(TaskStarted{.task = task.id.value,
                           .name = task.call.function->name,
                           .node = static_cast<int>(node.id.value)});
}

// Whether another node may run a task that no worker of this node could begin.
bool Tasks::may_begin_elsewhere(const NodeLoad& node, const Task& task) const {
  if (task.cancelled || task.call.options.node || task.attempt >= kMaxAttempts) return false;
  return std::ranges::any_of(
      loads_.all(), [&node](const NodeLoad& other) { return &other != &node && other.is_open(); });
}

void Tasks::enqueue_first(const Task& task) {
  if (task.call.options.node) {
    waiting_list(loads_.at(*task.call.options.node), task).push_front(task.id);
  } else {
    queue_.push_front(task.id);
  }
}

// Answers the caller and forgets the task.
void Tasks::finish(EngineEffects& effects, TaskId id, wire::Outcome outcome) {
  const auto found = tasks_.find(id);
  SKYWARD_CHECK(found != tasks_.end(), "task {}", id.value);
  blobs_.release(effects, found->second.call.arguments);
  tasks_.erase(found);
  if (tasks_.empty() && tasks_.bucket_count() > kIdleBuckets) tasks_.rehash(0);
  effects.complete(id, std::move(outcome));
}

// The same while the node is still at work on it: the slot stays taken until the node says
// otherwise.
void Tasks::answer_early(EngineEffects& effects, Task& task, Error why) {
  NodeLoad& node = loads_.at(task.node);
  retain_blobs(effects, task);
  forget_task(node, task);
  finish(effects, task.id, failure_on(node, std::move(why)));
}

void Tasks::fail_waiting(EngineEffects& effects, const Error& why) {
  std::vector<TaskId> waiting;
  for (const auto& [id, task] : tasks_) {
    if (!task.assigned) waiting.push_back(id);
  }
  std::ranges::sort(waiting);
  for (const TaskId id : waiting) finish(effects, id, failure(why));
  queue_.clear();
  rendezvous_.take();
}

// -------------------------------------------------------------------------------- from the caller

void Tasks::submit(EngineEffects& effects, Time now, TaskId id, wire::Call&& call) {
  if (abandoned_) return effects.complete(id, failure(*abandoned_));
  if (!open_) {
    return effects.complete(id, failure({ErrorKind::cancelled, "the pool is closed", {}}));
  }
  if (first_call_.submitted == Time{}) first_call_.submitted = now;
  const auto [place, added] = tasks_.try_emplace(id);
  SKYWARD_CHECK(added, "task {} twice", id.value);
  Task& task = place->second;
  task.id = id;
  task.call = std::move(call);
  if (task.call.options.group) task.group_calls = task.call.options.stream_window;
  // The others are on the same node, and go with it to the next machine.
  if (loads_.all().size() == 1 || !task.call.options.node) task.call.options.together = false;
  blobs_.hold(task.call.arguments);
  if (!task.call.options.node) {
    queue_.push_back(id);
    return dispatch(effects, now);
  }
  if (task.call.options.together && !rendezvous_.is_complete()) {
    if (rendezvous_.in_vain()) return finish(effects, id, failure(*rendezvous_.in_vain()));
    return rendezvous_.add(id);
  }
  NodeLoad& node = loads_.at(*task.call.options.node);
  if (node.given_up) return finish(effects, id, failure(*node.given_up));
  if (may_still_go(node, task)) return assign(effects, now, node, task);
  pin(effects, now, node, task);
}

void Tasks::pin(EngineEffects& effects, Time now, NodeLoad& node, const Task& task) {
  waiting_list(node, task).push_back(task.id);
  give_pinned(effects, now, node);
  loads_.list(node);
}

void Tasks::cancel(EngineEffects& effects, Time now, TaskId id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second.cancelled) return;
  Task& task = found->second;
  if (!task.assigned) {
    return finish(
        effects, id,
        failure({ErrorKind::cancelled,
                 fmt::format("{} was cancelled before it started", task.call.function->name),
                 {}}));
  }
  task.cancelled = true;
  effects.send(task.node, wire::CancelTask{id});
  cancelled_.emplace_back(now + kCancelBackstop, id);
}

void Tasks::take_item(EngineEffects& effects, TaskId id, std::uint32_t count) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || !found->second.assigned) return;
  if (found->second.call.options.group) return;  // a group waits for no reader
  std::uint32_t& ahead = found->second.items_ahead;
  ahead -= std::min(ahead, count);
  effects.send(found->second.node, wire::StreamCredit{id, count});
}

// ----------------------------------------------------------------------------------- a node's life

void Tasks::set_intake(NodeLoad& node, Intake intake) {
  const bool was_open = node.is_open();
  node.intake = intake;
  rendezvous_.on_intake(was_open, node.is_open());
}

// All nodes are there now.
void Tasks::give_together(EngineEffects& effects, Time now) {
  for (const TaskId id : rendezvous_.take()) {
    const auto found = tasks_.find(id);
    if (found == tasks_.end()) continue;
    pin(effects, now, loads_.at(*found->second.call.options.node), found->second);
  }
}

void Tasks::open_node(EngineEffects& effects, Time now, NodeId id, std::uint32_t slots,
                      PeerNode peer) {
  NodeLoad& node = loads_.at(id);
  set_intake(node, Intake::open);
  node.instance = peer.instance;
  node.slots = slots;
  blobs_.open_node(id, std::move(peer));
  give_pinned(effects, now, node);
  loads_.list(node);
  if (rendezvous_.is_complete()) give_together(effects, now);
  dispatch(effects, now);
}

void Tasks::stop_node(NodeId id) {
  NodeLoad& node = loads_.at(id);
  if (node.is_open()) set_intake(node, Intake::finishing);
  blobs_.spreads().stop_giving(id);
}

void Tasks::recall(EngineEffects& effects, NodeId id) { loads_.recall_all(effects, loads_.at(id)); }

// Those that start together with tasks of other nodes, which may have begun.
void Tasks::lose_pinned(EngineEffects& effects, NodeLoad& node, const Error& why) {
  for (const auto* waiting : {&node.bound_later, &node.pinned}) {
    for (const TaskId id : *waiting) {
      const auto found = tasks_.find(id);
      if (found == tasks_.end() || !found->second.call.options.together) continue;
      finish(effects, id, failure_on(node, lost_error(node, found->second, why)));
    }
  }
}

Work Tasks::lose_node(EngineEffects& effects, Time now, NodeId id, const Error& why) {
  NodeLoad& node = loads_.at(id);
  set_intake(node, Intake::none);
  blobs_.shut_node(id);
  std::vector<TaskId> ids;
  for (const Task* task = node.tasks.first(); task != nullptr; task = task->next) {
    ids.push_back(task->id);
  }
  std::ranges::sort(ids, std::greater<>());  // enqueue_first turns the order round
  if (node.outstanding > 0) {
    const Time since = std::max(node.busy_since, node.answered_at);
    node.work.useful += since - node.busy_since;
    node.work.lost += now - since;
    node.busy_since = now;  // the rest is nothing
  }
  for (const TaskId task_id : ids) {
    Task& task = tasks_.at(task_id);
    retain_blobs(effects, task);
    unassign(node, now, task);
    // By a caller that has seen others fail, mostly; the loss tells more.
    if (task.cancelled && !task.call.options.together) {
      finish(effects, task_id,
             failure_on(node,
                        {ErrorKind::cancelled, task.call.function->name + " was cancelled", {}}));
    } else if (task.attempt >= kMaxAttempts || task.item_seen || task.call.options.together) {
      finish(effects, task_id, failure_on(node, lost_error(node, task, why)));
    } else {
      ++task.attempt;
      enqueue_first(task);
    }
  }
  lose_pinned(effects, node, why);
  loads_.clear(node);
  blobs_.lose_node(effects, id);
  dispatch(effects, now);
  return std::exchange(node.work, {});
}

void Tasks::give_up_node(EngineEffects& effects, NodeId id, const Error& why) {
  NodeLoad& node = loads_.at(id);
  node.given_up = std::make_shared<const Error>(why);
  rendezvous_.give_up(why);
  for (const TaskId task : rendezvous_.take()) {
    if (tasks_.contains(task)) finish(effects, task, failure(why));
  }
  node.bound_later.splice(node.bound_later.end(), node.pinned);
  for (const TaskId task : std::exchange(node.bound_later, {})) {
    const auto found = tasks_.find(task);
    if (found != tasks_.end() && !found->second.assigned) finish(effects, task, failure(why));
  }
}

Work Tasks::work(Time now, NodeId id) {
  NodeLoad& node = loads_.at(id);
  const bool runs = open_ && node.outstanding > 0;
  if (runs) node.work.useful += now - std::exchange(node.busy_since, now);
  return node.work;
}

// ----------------------------------------------------------------------------- from a node's agent

void Tasks::on_result(EngineEffects& effects, Time now, NodeId id, wire::TaskResult&& result) {
  NodeLoad& node = loads_.at(id);
  SKYWARD_CHECK(node.outstanding > 0, "node {} answers task {}", id.value, result.task.value);
  if (first_call_.answered == Time{}) {
    first_call_.answered = now;
    first_call_.run_ns = result.run_ns;
  }
  node.done.busy_seconds += static_cast<double>(result.run_ns) * 1e-9;
  node.answered_at = now;
  const auto found = tasks_.find(result.task);
  const bool again = found != tasks_.end() && result.status == wire::TaskStatus::not_begun &&
                     may_begin_elsewhere(node, found->second);
  if (!again) {
    ++node.done.tasks;
    const bool failed =
        result.status != wire::TaskStatus::ok && result.status != wire::TaskStatus::cancelled;
    if (failed) ++node.done.failed;
  }
  if (found == tasks_.end()) {  // answered already by give_up_cancelled
    take_off(node, now);
  } else {
    Task& task = found->second;
    SKYWARD_CHECK(task.assigned && task.node == node.id && task.attempt == result.attempt);
    loads_.note_run(result);
    node.note_way(task, result, now);
    // What a call does on one certain node may well fail on that one alone.
    if (!task.call.options.node && loads_.fails_alone(node, result.status))
      blame(effects, now, node);
    if (result.status == wire::TaskStatus::ok || result.status == wire::TaskStatus::raised) {
      blobs_.note_whole(id, task.call.arguments);
    }
    if (is_worker_lost(result.status)) {
      retain_blobs(effects, task);  // children of the worker may live on
    } else if (!result.retained.empty()) {
      for_each_blob(task.call.arguments, [&](const wire::Blob& blob) {
        const auto& kept = result.retained;
        if (std::ranges::find(kept, blob.id) != kept.end()) effects.retain_blob(blob);
      });
    }
    unassign(node, now, task);
    if (result.status == wire::TaskStatus::not_begun) lose_body(effects, node, task);
    if (again) {
      ++task.attempt;
      enqueue_first(task);
      loads_.set_aside(node, now);
    } else {
      finish(effects, result.task, make_outcome(task, node, result));
    }
  }
  give_pinned(effects, now, node);
  // A node that has failed a call is the last to get the next one, which may be a retry.
  loads_.list(node, /*warm=*/result.status == wire::TaskStatus::ok);
  dispatch(effects, now);
}

// Its calls fail quickly, so that it would run most of the queue.
void Tasks::blame(EngineEffects& effects, Time now, NodeLoad& node) {
  loads_.set_failing_aside(node, now);
  if (std::exchange(node.failed_row.told, true)) return;
  effects.emit(Notice{.message = fmt::format(
                          "node {}: {} calls in a row failed, while other nodes completed theirs; "
                          "it gets only a few calls until one succeeds",
                          node.id.value, node.failed_row.calls),
                      .level = "warning",
                      .instance_id = node.instance});
}

void Tasks::on_item(EngineEffects& effects, NodeId id, wire::StreamItem item) {
  const auto found = tasks_.find(item.task);
  if (found == tasks_.end() || found->second.node != id || !found->second.assigned) return;
  Task& task = found->second;
  if (!item.undelivered.empty()) {
    effects.send(id, wire::CancelTask{item.task});
    return answer_early(effects, task, undelivered_error(loads_.at(id), task, item.undelivered));
  }
  task.item_seen = true;
  ++task.items_ahead;
  if (task.call.options.group) {
    const auto group = wire::group_item_head(item.payload);
    if (!group) return;
    task.group_calls -= group->results + group->withdrawn;
    loads_.at(id).done.tasks += group->results;
  }
  effects.deliver_item(item.task, std::move(item.payload));
}

void Tasks::on_recalled(EngineEffects& effects, Time now, NodeId node_id,
                        const wire::Recalled& recalled) {
  NodeLoad& node = loads_.at(node_id);
  node.recalling = false;
  bool movable = false;  // some may run elsewhere
  for (const TaskId id : recalled.tasks) {
    const auto found = tasks_.find(id);
    if (found == tasks_.end()) {
      take_off(node, now);
      continue;
    }
    Task& task = found->second;
    SKYWARD_CHECK(task.assigned && task.node == node.id);
    unassign(node, now, task);
    if (task.cancelled) {
      finish(effects, id,
             failure({ErrorKind::cancelled,
                      fmt::format("{} was cancelled", task.call.function->name),
                      {}}));
    } else if (may_still_go(node, task) && !abandoned_) {
      assign(effects, now, node, task);  // it can run nowhere else
    } else {
      enqueue_first(task);
      movable |= !task.call.options.node;
    }
  }
  give_pinned(effects, now, node);
  loads_.list(node);
  // Nothing came: what is there has begun, is pinned, or waits inside a worker process, from where
  // the agent takes it back when it waits long.
  loads_.on_recalled(movable);
  dispatch(effects, now);
}

// ------------------------------------------------------------------------------------------- time

void Tasks::give_up_cancelled(EngineEffects& effects, TaskId id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || !found->second.cancelled || !found->second.assigned) return;
  Task& task = found->second;
  answer_early(effects, task,
               {ErrorKind::cancelled,
                fmt::format("{} was cancelled; node {} did not confirm within {:.0f} s",
                            task.call.function->name, task.node.value, seconds(kCancelBackstop)),
                {}});
}

void Tasks::on_timer(EngineEffects& effects, Time now) {
  if (loads_.recall_at() <= now) loads_.recall(effects, !queue_.empty());
  if (loads_.aside_until() <= now) {
    while (loads_.aside_until() <= now) loads_.bring_back();
    dispatch(effects, now);
  }
  while (!cancelled_.empty() && cancelled_.front().first <= now) {
    const TaskId task = cancelled_.front().second;
    cancelled_.pop_front();
    give_up_cancelled(effects, task);
  }
}

Time Tasks::deadline() const {
  const Time cancelled = cancelled_.empty() ? kNever : cancelled_.front().first;
  return std::min({loads_.recall_at(), loads_.aside_until(), cancelled});
}

// ---------------------------------------------------------------------------------------- looking

const Task* Tasks::find(TaskId task) const {
  const auto found = tasks_.find(task);
  return found == tasks_.end() ? nullptr : &found->second;
}

void Tasks::check() const {
  for (const auto& [id, task] : tasks_) {
    SKYWARD_CHECK(task.id == id && task.attempt >= 1 && task.attempt <= kMaxAttempts);
    if (task.assigned) {
      SKYWARD_CHECK(on(task.node).tasks.has(task));
    } else if (task.call.options.node) {
      const NodeLoad& node = on(*task.call.options.node);
      const bool waits =
          std::ranges::find(rendezvous_.waiting(), id) != rendezvous_.waiting().end();
      const std::list<TaskId>& waiting = waiting_list(node, task);
      SKYWARD_CHECK(waits || std::ranges::find(waiting, id) != waiting.end());
      SKYWARD_CHECK(!waits || !rendezvous_.is_complete(), "task {} waits for no node", id.value);
    } else {
      SKYWARD_CHECK(std::ranges::find(queue_, id) != queue_.end());
    }
    SKYWARD_CHECK(task.assigned || !task.cancelled);
  }
  const auto open = std::ranges::count_if(loads_.all(), &NodeLoad::is_open);
  SKYWARD_CHECK(rendezvous_.missing() + static_cast<std::size_t>(open) == loads_.all().size());
  std::size_t awaited = 0;
  for (const NodeLoad& node : loads_.all()) {
    SKYWARD_CHECK(node.tasks.size() <= node.outstanding, "node {}", node.id.value);
    SKYWARD_CHECK(node.bound <= node.tasks.size(), "node {}", node.id.value);
    awaited += node.tasks.size();
    SKYWARD_CHECK(!open_ || node.tasks.empty() || node.intake != Intake::none, "node {}",
                  node.id.value);
    SKYWARD_CHECK(!open_ || queue_.empty() || !loads_.has_free_slot(node),
                  "node {} is idle while tasks wait", node.id.value);
    const bool takes_pinned =
        open_ && !abandoned_ && node.is_open() && node.outstanding < limits_.max_tasks_given;
    SKYWARD_CHECK(!takes_pinned || node.bound_later.empty(), "node {}", node.id.value);
    SKYWARD_CHECK(
        !takes_pinned || node.pinned.empty() || node.outstanding - node.bound >= node.slots,
        "node {} is idle while tasks wait for it", node.id.value);
  }
  const auto assigned =
      std::ranges::count_if(tasks_, [](const auto& entry) { return entry.second.assigned; });
  SKYWARD_CHECK(awaited == static_cast<std::size_t>(assigned), "{} of {}", assigned, awaited);
  blobs_.check();
}

}  // namespace skyward::engine
