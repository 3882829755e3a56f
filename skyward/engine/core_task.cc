// Tasks: queueing, placing, answering. See core.h for the idea.

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "skyward/base/check.h"
#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

// How far a node may fall behind before its waiting tasks are recalled for an idle one.
constexpr Duration kStealDelay = 5ms;
// ... and how far the delay grows while recalls bring nothing.
constexpr Duration kMaxStealDelay = 1s;
// Weight of the newest run time in the running mean.
constexpr double kMeanWeight = 1.0 / 16;

std::uint32_t prefetch_depth(const State& state, const Node& node) {
  if (state.mean_run_ns < 0) return 0;
  const auto work = static_cast<double>(kPrefetchWork.count());
  const double tasks = std::floor(work / std::max(state.mean_run_ns, 1.0));
  const auto limit = static_cast<double>(kMaxPrefetchPerSlot);
  return static_cast<std::uint32_t>(std::min(tasks, limit)) * node.slots;
}

// ... for new tasks. A machine that its cloud takes back gets none.
bool is_open(const Node& node) { return node.state == NodeState::ready && node.gone_at == kNever; }

bool has_free_slot(const Node& node) { return is_open(node) && node.outstanding < node.slots; }

bool has_spare_room(const State& state, const Node& node) {
  const std::uint32_t room = node.slots + prefetch_depth(state, node);
  return is_open(node) && !node.recalling &&
         node.outstanding < std::min(room, state.options.max_tasks_given);
}

// Puts the node where dispatch() looks for room, at most once in each list. One that is `warm`,
// idle since this moment, comes first: a caller that waits for each answer stays on the node whose
// caches hold his function. A batch still spreads: a node that has taken a task queues behind the
// others.
void list_node(State& state, Node& node, bool warm = false) {
  if (has_free_slot(node)) {
    if (std::exchange(node.listed_free, true)) return;
    if (warm && node.outstanding == 0) {
      state.free_nodes.push_front(node.id);
    } else {
      state.free_nodes.push_back(node.id);
    }
  } else if (has_spare_room(state, node)) {
    if (!std::exchange(node.listed_spare, true)) state.spare_nodes.push_back(node.id);
  }
  if (node.outstanding > node.slots) {
    state.loaded_nodes.insert(node.id);
  } else {
    state.loaded_nodes.erase(node.id);
  }
}

// Next node with a free slot, else one with room for prefetching; null when all are full.
Node* take_node(State& state) {
  while (!state.free_nodes.empty()) {
    Node& node = node_at(state, state.free_nodes.front());
    state.free_nodes.pop_front();
    node.listed_free = false;
    if (has_free_slot(node)) return &node;
  }
  while (!state.spare_nodes.empty()) {
    Node& node = node_at(state, state.spare_nodes.front());
    state.spare_nodes.pop_front();
    node.listed_spare = false;
    if (has_spare_room(state, node)) return &node;
  }
  return nullptr;
}

template <typename Visit>
void for_each_blob(const wire::Payload& payload, Visit visit) {
  // Payloads may have many windows, but into few blobs; each of these is visited once.
  std::vector<BlobId> seen;
  for (const wire::Buffer& buffer : payload.buffers) {
    if (!buffer.in_blob() || std::ranges::find(seen, buffer.blob.id) != seen.end()) continue;
    seen.push_back(buffer.blob.id);
    visit(buffer.blob);
  }
}

void hold_blobs(State& state, const Task& task) {
  for_each_blob(task.spec.arguments, [&](const wire::Blob& blob) { ++state.blobs[blob.id].users; });
}

// Nodes forget a blob that nobody needs any more.
void drop_if_unused(State& state, Effects& effects, BlobId blob) {
  const auto found = state.blobs.find(blob);
  if (found->second.users > 0) return;
  for (const NodeId holder : found->second.holders) {
    Node& node = node_at(state, holder);
    node.blobs.erase(blob);
    if (node.state == NodeState::ready) {
      effects.send(holder, wire::DropBlobs{{blob}});
    }
  }
  end_use(state, found->second);
  state.blobs.erase(found);
}

// The task no longer needs its blobs.
void release_blobs(State& state, Effects& effects, const Task& task) {
  for_each_blob(task.spec.arguments, [&](const wire::Blob& blob) {
    const auto found = state.blobs.find(blob.id);
    SKYWARD_CHECK(found != state.blobs.end() && found->second.users > 0);
    --found->second.users;
    drop_if_unused(state, effects, blob.id);
  });
}

void retain_blobs(Effects& effects, const Task& task) {
  for_each_blob(task.spec.arguments, [&](const wire::Blob& blob) { effects.retain_blob(blob); });
}

// Answers the caller and forgets the task.
void finish(State& state, Effects& effects, TaskId id, Completion completion) {
  const auto found = state.tasks.find(id);
  SKYWARD_CHECK(found != state.tasks.end(), "task {}", id.value);
  release_blobs(state, effects, found->second);
  state.tasks.erase(found);
  effects.complete(id, std::move(completion));
}

Completion failure(Error error) {
  Completion completion;
  completion.status = Completion::Status::failed;
  completion.error = std::move(error);
  return completion;
}

Completion failure_on(const Node& node, Error error) {
  Completion completion = failure(std::move(error));
  completion.node = static_cast<int>(node.id.value);
  completion.instance_id = node.instance.id;
  return completion;
}

// Makes room on the node for a function that it gets.
void drop_old_functions(const State& state, Effects& effects, Node& node) {
  wire::DropFunctions functions;
  wire::DropBlobs bodies;
  for (const auto& [function, blob] :
       node.functions.shrink(state.options.max_kept_function_bytes)) {
    functions.functions.push_back(function);
    if (blob != BlobId{}) bodies.blobs.push_back(blob);
  }
  if (!functions.functions.empty()) effects.send(node.id, std::move(functions));
  if (!bodies.blobs.empty()) effects.send(node.id, std::move(bodies));
}

void assign(State& state, Effects& effects, Time now, Node& node, Task& task) {
  task.assigned = true;
  task.node = node.id;
  node.tasks.insert(task.spec.id);
  if (node.outstanding++ == 0) node.busy_since = now;
  for_each_blob(task.spec.arguments, [&](const wire::Blob& blob) {
    state.blobs[blob.id].holders.insert(node.id);
    node.blobs.insert(blob.id);
    spread_blob(state, effects, node, blob);
  });

  wire::RunTask run;
  run.task = task.spec.id;
  run.attempt = task.attempt;
  run.worker = task.spec.worker;
  run.function = task.spec.function->id;
  if (node.functions.use(task.spec.function->id, task.spec.function->body)) {
    run.body = task.spec.function->body;
    if (run.body.in_blob()) spread_blob(state, effects, node, run.body.blob);
    drop_old_functions(state, effects, node);
  }
  run.arguments = task.spec.arguments;
  run.timeout_ms = static_cast<std::uint64_t>(
      std::chrono::ceil<std::chrono::milliseconds>(task.spec.timeout).count());
  run.stream_window = task.spec.stream_window;
  effects.send(node.id, std::move(run));
  if (!state.spec.collect_tasks) return;
  effects.emit(TaskStarted{.task = task.spec.id.value,
                           .name = task.spec.function->name,
                           .node = static_cast<int>(node.id.value)});
}

// Tasks that can run on this node only go there at once, busy or not: the agent knows best which of
// its workers comes first. No more than a link can bear, though.
void give_pinned(State& state, Effects& effects, Time now, Node& node) {
  if (!is_open(node) || state.abandoned) return;
  while (!node.pinned.empty() && node.outstanding < state.options.max_tasks_given) {
    const auto found = state.tasks.find(node.pinned.front());
    node.pinned.pop_front();
    if (found != state.tasks.end()) assign(state, effects, now, node, found->second);
  }
}

// One task less on it.
void take_off(Node& node, Time now) {
  if (--node.outstanding == 0) node.work.useful += now - node.busy_since;
}

// The node's word about the task is awaited no longer.
void forget_task(Node& node, const Task& task) {
  node.tasks.erase(task.spec.id);
  node.functions.release(task.spec.function->id);
}

void unassign(Node& node, Time now, Task& task) {
  forget_task(node, task);
  take_off(node, now);
  task.assigned = false;
}

void enqueue_first(State& state, Task& task) {
  if (task.spec.node) {
    node_at(state, *task.spec.node).pinned.push_front(task.spec.id);
  } else {
    state.queue.push_front(task.spec.id);
  }
}

std::string died_text(const Task& task, const Node& node, const wire::TaskResult& result) {
  return fmt::format(
      "{}: the worker process died while it ran this task (node {}, worker {}, {}): {}",
      task.spec.function->name, node.id.value, result.worker, node.instance.id, result.detail);
}

// What the agent's verdict means for the caller.
Completion make_completion(const Task& task, const Node& node, wire::TaskResult& result) {
  Completion completion;
  completion.node = static_cast<int>(node.id.value);
  completion.worker = static_cast<int>(result.worker);
  completion.instance_id = node.instance.id;
  completion.run_ns = result.run_ns;
  completion.tail = std::move(result.tail);
  completion.payload = std::move(result.payload);
  switch (result.status) {
    case wire::TaskStatus::ok:
      completion.status = Completion::Status::ok;
      break;
    case wire::TaskStatus::raised:
      completion.status = Completion::Status::raised;
      break;
    case wire::TaskStatus::worker_died:
      completion.error = {ErrorKind::task, died_text(task, node, result),
                          "Skyward replaced the worker; the pool continues"};
      break;
    case wire::TaskStatus::cancelled:
      completion.error = {
          ErrorKind::cancelled, fmt::format("{} was cancelled", task.spec.function->name), {}};
      break;
    case wire::TaskStatus::timed_out:
      completion.error = {
          ErrorKind::timeout,
          fmt::format("{} on node {}: {}", task.spec.function->name, node.id.value, result.detail),
          "give it more time with .with_timeout(…)"};
      break;
  }
  return completion;
}

void note_run_time(State& state, const wire::TaskResult& result) {
  // A task that was ended would have run longer, nobody knows how long.
  if (result.status != wire::TaskStatus::ok && result.status != wire::TaskStatus::raised) return;
  const auto run = static_cast<double>(result.run_ns);
  // Longer than expected counts at once, shorter only slowly: prefetching a long task hurts.
  if (state.mean_run_ns < 0 || run > 4 * state.mean_run_ns) {
    state.mean_run_ns = run;
  } else {
    state.mean_run_ns += kMeanWeight * (run - state.mean_run_ns);
  }
}

void schedule_steal(State& state, Time now) {
  if (state.steal_at != kNever || state.loaded_nodes.empty() || state.free_nodes.empty()) return;
  state.steal_at = now + std::max(state.steal_pause, kStealDelay);
}

}  // namespace

Node& node_at(State& state, NodeId id) {
  SKYWARD_CHECK(id.value < state.nodes.size(), "node {}", id.value);
  return state.nodes[id.value];
}

void recall_all(Effects& effects, Node& node) {
  if (node.outstanding == 0 || std::exchange(node.recalling, true)) return;
  effects.send(node.id, wire::RecallTasks{node.outstanding});
}

void dispatch(State& state, Effects& effects, Time now) {
  if (state.phase != Phase::running) return;
  if (state.abandoned) {
    fail_waiting_tasks(state, effects, *state.abandoned);
    return;
  }
  while (!state.queue.empty()) {
    const auto found = state.tasks.find(state.queue.front());
    if (found == state.tasks.end() || found->second.assigned) {  // cancelled while it waited
      state.queue.pop_front();
      continue;
    }
    Node* node = take_node(state);
    if (node == nullptr) return;
    state.queue.pop_front();
    assign(state, effects, now, *node, found->second);
    list_node(state, *node);
  }
  schedule_steal(state, now);
}

void on_submit(State& state, Effects& effects, Time now, TaskSpec spec) {
  const TaskId id = spec.id;
  if (state.abandoned) {
    effects.complete(id, failure(*state.abandoned));
    return;
  }
  if (state.phase != Phase::running) {
    effects.complete(id, failure({ErrorKind::cancelled, "the pool is closed", {}}));
    return;
  }
  if (state.first_call_at == Time{}) state.first_call_at = now;
  const auto [place, added] = state.tasks.try_emplace(id);
  SKYWARD_CHECK(added, "task {} twice", id.value);
  Task& task = place->second;
  task.spec = std::move(spec);
  hold_blobs(state, task);
  if (!task.spec.node) {
    state.queue.push_back(id);
    dispatch(state, effects, now);
    return;
  }
  Node& node = node_at(state, *task.spec.node);
  if (node.state == NodeState::gone) {
    finish(
        state, effects, id,
        failure_on(node, {ErrorKind::lost,
                          fmt::format("node {} was lost and could not be replaced", node.id.value),
                          {}}));
    return;
  }
  node.pinned.push_back(id);
  give_pinned(state, effects, now, node);
  list_node(state, node);
}

void on_cancel(State& state, Effects& effects, Time now, TaskId id) {
  const auto found = state.tasks.find(id);
  if (found == state.tasks.end() || found->second.cancelled) return;
  Task& task = found->second;
  if (!task.assigned) {
    finish(state, effects, id,
           failure({ErrorKind::cancelled,
                    fmt::format("{} was cancelled before it started", task.spec.function->name),
                    {}}));
    return;
  }
  task.cancelled = true;
  effects.send(task.node, wire::CancelTask{id});
  state.alarms.push({now + kCancelBackstop, State::Alarm::Kind::cancel, id.value});
}

// The nodes that have the blob keep it between tasks too, until the caller no longer does.
void on_keep_blob(State& state, Effects& effects, BlobId blob, bool keep) {
  if (keep) {
    BlobUse& use = state.blobs[blob];
    ++use.users;
    ++use.kept;
    return;
  }
  // More often forgotten than kept, or kept in another life of the pool: users' programs do that.
  const auto found = state.blobs.find(blob);
  if (found == state.blobs.end() || found->second.kept == 0) return;
  --found->second.kept;
  --found->second.users;
  drop_if_unused(state, effects, blob);
}

void check_cancelled(State& state, Effects& effects, TaskId id) {
  const auto found = state.tasks.find(id);
  if (found == state.tasks.end() || !found->second.cancelled || !found->second.assigned) return;
  // The agent had its chance. The caller is answered; the slot stays taken until the node says
  // otherwise.
  Task& task = found->second;
  Node& node = node_at(state, task.node);
  retain_blobs(effects, task);
  forget_task(node, task);
  finish(state, effects, id,
         failure_on(node,
                    {ErrorKind::cancelled,
                     fmt::format("{} was cancelled; node {} did not confirm within {:.0f} s",
                                 task.spec.function->name, node.id.value, seconds(kCancelBackstop)),
                     {}}));
}

void on_item_taken(State& state, Effects& effects, TaskId id, std::uint32_t count) {
  const auto found = state.tasks.find(id);
  if (found == state.tasks.end() || !found->second.assigned) return;
  std::uint32_t& ahead = found->second.items_ahead;
  ahead -= std::min(ahead, count);
  effects.send(found->second.node, wire::StreamCredit{id, count});
}

void on_stream_item(State& state, Effects& effects, Node& node, wire::StreamItem item) {
  const auto found = state.tasks.find(item.task);
  if (found == state.tasks.end() || found->second.node != node.id || !found->second.assigned) {
    return;
  }
  found->second.item_seen = true;
  ++found->second.items_ahead;
  effects.deliver_item(item.task, std::move(item.payload));
}

void on_task_result(State& state, Effects& effects, Time now, Node& node, wire::TaskResult result) {
  SKYWARD_CHECK(node.outstanding > 0, "node {} answers task {}", node.id.value, result.task.value);
  const auto found = state.tasks.find(result.task);
  ++node.receipt.tasks;
  if (state.first_answer_at == Time{}) {
    state.first_answer_at = now;
    state.first_run_ns = result.run_ns;
  }
  node.receipt.busy_seconds += static_cast<double>(result.run_ns) * 1e-9;
  if (result.status != wire::TaskStatus::ok) ++node.receipt.failed;
  node.answered_at = now;
  if (found == state.tasks.end()) {  // answered already by check_cancelled
    take_off(node, now);
  } else {
    Task& task = found->second;
    SKYWARD_CHECK(task.assigned && task.node == node.id && task.attempt == result.attempt);
    note_run_time(state, result);
    if (result.status == wire::TaskStatus::ok || result.status == wire::TaskStatus::raised) {
      for_each_blob(task.spec.arguments,
                    [&](const wire::Blob& blob) { note_whole(state, node, blob); });
    }
    if (result.status == wire::TaskStatus::worker_died) {
      retain_blobs(effects, task);  // children of the worker may live on
    } else if (!result.retained.empty()) {
      for_each_blob(task.spec.arguments, [&](const wire::Blob& blob) {
        const auto& kept = result.retained;
        if (std::ranges::find(kept, blob.id) != kept.end()) effects.retain_blob(blob);
      });
    }
    unassign(node, now, task);
    finish(state, effects, result.task, make_completion(task, node, result));
  }
  give_pinned(state, effects, now, node);
  list_node(state, node, /*warm=*/true);
  dispatch(state, effects, now);
  if (!is_open(node)) retire_when_done(state, effects, now, node);
  dismiss_when_done(state, effects, now, node);
}

void on_recalled(State& state, Effects& effects, Time now, Node& node,
                 const wire::Recalled& recalled) {
  node.recalling = false;
  bool movable = false;  // some may run elsewhere
  for (const TaskId id : recalled.tasks) {
    const auto found = state.tasks.find(id);
    if (found == state.tasks.end()) {
      take_off(node, now);
      continue;
    }
    Task& task = found->second;
    SKYWARD_CHECK(task.assigned && task.node == node.id);
    unassign(node, now, task);
    if (task.cancelled) {
      finish(state, effects, id,
             failure({ErrorKind::cancelled,
                      fmt::format("{} was cancelled", task.spec.function->name),
                      {}}));
    } else if (task.spec.node && is_open(node) && !state.abandoned) {
      assign(state, effects, now, node, task);  // it can run nowhere else
    } else {
      enqueue_first(state, task);
      movable = true;
    }
  }
  give_pinned(state, effects, now, node);
  list_node(state, node);
  // Nothing came: what is there has begun, is pinned, or waits inside a worker process, from where
  // the agent takes it back when it waits long.
  state.steal_pause = movable
                          ? kStealDelay
                          : std::min(2 * std::max(state.steal_pause, kStealDelay), kMaxStealDelay);
  dispatch(state, effects, now);
  if (is_open(node) && !state.budget.is_draining()) return;
  call_back_more(effects, node, recalled);
  retire_when_done(state, effects, now, node);
  dismiss_when_done(state, effects, now, node);
}

void check_steal(State& state, Effects& effects, Time now) {
  if (state.steal_at > now) return;
  state.steal_at = kNever;
  if (!state.queue.empty() || state.loaded_nodes.empty()) return;
  std::erase_if(state.free_nodes, [&](NodeId id) {
    Node& node = node_at(state, id);
    node.listed_free = has_free_slot(node);
    return !node.listed_free;
  });
  if (state.free_nodes.empty()) return;
  for (const NodeId id : state.loaded_nodes) {
    Node& node = node_at(state, id);
    if (std::exchange(node.recalling, true)) continue;
    effects.send(id, wire::RecallTasks{node.outstanding - node.slots});
  }
}

void node_opened(State& state, Effects& effects, Time now, Node& node) {
  if (!is_open(node)) return;
  give_pinned(state, effects, now, node);
  list_node(state, node);
  dispatch(state, effects, now);
}

void return_tasks(State& state, Effects& effects, Time now, Node& node, const Error& why) {
  std::vector<TaskId> ids(node.tasks.begin(), node.tasks.end());
  std::ranges::sort(ids, std::greater<>());  // enqueue_first turns the order round
  if (node.outstanding > 0) {
    const Time since = std::max(node.busy_since, node.answered_at);
    node.work.useful += since - node.busy_since;
    node.work.lost += now - since;
    node.busy_since = now;  // the rest is nothing
  }
  for (const TaskId id : ids) {
    Task& task = state.tasks.at(id);
    retain_blobs(effects, task);
    unassign(node, now, task);
    if (task.cancelled) {
      finish(state, effects, id,
             failure_on(node,
                        {ErrorKind::cancelled, task.spec.function->name + " was cancelled", {}}));
    } else if (task.attempt >= kMaxAttempts || task.item_seen) {
      finish(state, effects, id,
             failure_on(
                 node,
                 {why.kind == ErrorKind::unreachable ? why.kind : ErrorKind::lost,
                  fmt::format("{}: node {} was lost while it ran this task (attempt {} of {}): {}",
                              task.spec.function->name, node.id.value, task.attempt, kMaxAttempts,
                              why.message),
                  task.item_seen ? "a stream that has delivered items is not retried"
                                 : std::string()}));
    } else {
      ++task.attempt;
      enqueue_first(state, task);
    }
  }
  node.outstanding = 0;
  node.recalling = false;
  node.functions.clear();
  state.loaded_nodes.erase(node.id);
  for (const BlobId blob : std::exchange(node.blobs, {}))
    state.blobs.at(blob).holders.erase(node.id);
  forget_copies(state, effects, node);
  dispatch(state, effects, now);
}

void fail_waiting_task(State& state, Effects& effects, TaskId id, const Error& why) {
  const auto found = state.tasks.find(id);
  if (found != state.tasks.end() && !found->second.assigned) {
    finish(state, effects, id, failure(why));
  }
}

void fail_waiting_tasks(State& state, Effects& effects, const Error& why) {
  std::vector<TaskId> waiting;
  for (const auto& [id, task] : state.tasks) {
    if (!task.assigned) waiting.push_back(id);
  }
  std::ranges::sort(waiting);
  for (const TaskId id : waiting) finish(state, effects, id, failure(why));
  state.queue.clear();
}

void fail_all_tasks(State& state, Effects& effects, const Error& why) {
  std::vector<TaskId> ids;
  for (const auto& [id, task] : state.tasks) ids.push_back(id);
  std::ranges::sort(ids);
  for (const TaskId id : ids) {
    Task& task = state.tasks.at(id);
    if (task.assigned) {
      retain_blobs(effects, task);
      forget_task(node_at(state, task.node), task);
    }
    finish(state, effects, id, failure(why));
  }
  state.queue.clear();
}

}  // namespace skyward::engine
