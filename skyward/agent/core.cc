#include "skyward/agent/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/agent/core_index.h"
#include "skyward/agent/core_node.h"
#include "skyward/agent/core_schedule.h"
#include "skyward/agent/core_start.h"
#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/wire/group.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;

// A buffer whose blob came without a descriptor means the blob this node has. False when it has
// not.
bool resolve_blobs(AgentState& state, wire::Payload& payload) {
  for (wire::Buffer& buffer : payload.buffers) {
    if (!buffer.in_blob()) continue;
    if (buffer.blob.descriptor >= 0) {
      if (buffer.blob.id.value != 0) state.blobs.try_emplace(buffer.blob.id, buffer.blob);
      continue;
    }
    const auto found = state.blobs.find(buffer.blob.id);
    if (found == state.blobs.end()) return false;
    buffer.blob = found->second;
  }
  return true;
}

void on_run_task(AgentState& state, AgentEffects& effects, const wire::RunTask& run, Time now) {
  if (state.phase == AgentPhase::stopping || state.phase == AgentPhase::ended) return;
  const auto [place, is_new] = state.tasks.try_emplace(run.task);
  if (!is_new) return;  // this attempt or another is here and will be answered
  AgentTask& task = place->second;
  task.run = run;
  task.run.body = {};
  task.items_left = run.stream_window;
  task.arrival = ++state.arrivals;
  if (!run.body.empty()) state.bodies[run.function] = run.body.bytes;
  const std::uint32_t worker = run.worker.value_or(0);
  const auto refuse = [&](std::string why) {
    answer_status(state, effects, run.task, TaskStatus::not_begun, worker, std::move(why));
  };
  if (!resolve_blobs(state, task.run.arguments))
    return refuse("the node could not store a large argument; its agent's log says why");
  if (run.group) {
    const auto calls = wire::group_arguments(run.arguments);
    if (!calls) return refuse(calls.error().message);
    if (calls->empty() || calls->size() != run.stream_window)
      return refuse("the group counts its calls wrongly");
  }
  const auto body = state.bodies.find(run.function);
  if (body == state.bodies.end())
    return refuse(
        "the node does not have the function's body: either it could not store it (see its agent's "
        "log), or this is a bug in Skyward");
  task.body = body->second;
  if (state.phase == AgentPhase::failed) return refuse("the node has failed");
  if (state.phase != AgentPhase::greeting && worker >= state.pinned.size())
    return refuse(fmt::format("the call asks for worker {}, but the node has {}", worker,
                              state.pinned.size()));
  if (state.phase == AgentPhase::greeting) return refuse("the node is not configured yet");
  enqueue(state, run.task);
  dispatch(state, effects, now);
}

void on_recall(AgentState& state, AgentEffects& effects, std::uint32_t count) {
  wire::Recalled recalled;
  while (recalled.tasks.size() < count && !state.queue.empty()) {
    const TaskId id = state.queue.back();
    state.queue.pop_back();
    state.tasks.erase(id);
    recalled.tasks.push_back(id);
  }
  effects.send(std::move(recalled));
}

void on_drop_functions(AgentState& state, AgentEffects& effects, const wire::DropFunctions& drop) {
  for (const FunctionId function : drop.functions) {
    state.bodies.erase(function);
    state.run_times.erase(function);
    for (Slot& slot : state.slots) {
      // A task that the engine gave up may be here still; its process keeps what it has.
      const auto calls = [&](TaskId id) { return state.tasks.at(id).run.function == function; };
      if (std::ranges::any_of(slot.window, calls) || slot.functions.erase(function) == 0) continue;
      if (slot.phase == SlotPhase::ready && slot.killed.empty())
        effects.drop_function(slot.id, function);
    }
  }
}

void on_credit(AgentState& state, AgentEffects& effects, const wire::StreamCredit& credit) {
  const auto found = state.tasks.find(credit.task);
  if (found == state.tasks.end() || !found->second.slot) return;  // it ended meanwhile
  found->second.items_left += credit.count;
  effects.credit(*found->second.slot, credit.task, credit.count);
}

// Asks for what waits behind a slow front. Once for each stay in the window: a second note about a
// task that has come back meanwhile would meet it in the process when it is sent there again.
void withdraw_behind(AgentState& state, AgentEffects& effects, const Slot& slot) {
  std::vector<TaskId> behind;
  for (auto id = slot.window.begin() + 1; id != slot.window.end(); ++id)
    if (!std::exchange(state.tasks.at(*id).withdrawn, true)) behind.push_back(*id);
  if (!behind.empty()) effects.withdraw(slot.id, behind);
}

// The running call of the slot takes long. Those behind it may run elsewhere.
void end_patience(AgentState& state, AgentEffects& effects, Slot& slot, Time now) {
  const TaskId front = slot.window.front();
  if (is_group(state.tasks.at(front).run)) {
    slot.moved_at = now;
    slot.took_rest = effects.take_rest(slot.id, front).has_value();
    // The process has not begun it, and may be at something that has been answered.
    if (!slot.took_rest && now < slot.front_since + kWindowPatience) return reindex(state, slot);
  }
  slot.withdrew = true;
  reindex(state, slot);
  withdraw_behind(state, effects, slot);
}

// Noticed this late: the agent stood still, and so did its workers, which had no time to clean up.
bool was_held_up(Time deadline, Time now) { return now > deadline + kHeldUp; }

}  // namespace

void on_message(AgentState& state, AgentEffects& effects, const wire::Message& message, Time now) {
  if (const auto* run = std::get_if<wire::RunTask>(&message)) {
    on_run_task(state, effects, *run, now);
  } else if (const auto* credit = std::get_if<wire::StreamCredit>(&message)) {
    on_credit(state, effects, *credit);
  } else if (const auto* drop = std::get_if<wire::DropBlobs>(&message)) {
    for (const BlobId id : drop->blobs) state.blobs.erase(id);
  } else if (const auto* unused = std::get_if<wire::DropFunctions>(&message)) {
    on_drop_functions(state, effects, *unused);
  } else if (const auto* cancel = std::get_if<wire::CancelTask>(&message)) {
    if (state.phase == AgentPhase::stopping || !state.tasks.contains(cancel->task)) return;
    end_early(state, effects, cancel->task, TaskStatus::cancelled, now);
    dispatch(state, effects, now);
  } else if (const auto* recall = std::get_if<wire::RecallTasks>(&message)) {
    on_recall(state, effects, recall->count);
  } else if (const auto* configure = std::get_if<wire::Configure>(&message)) {
    on_configure(state, effects, *configure, now);
  } else if (const auto* moved = std::get_if<wire::PeerMoved>(&message)) {
    on_peer_moved(state, effects, *moved);
  } else if (const auto* end = std::get_if<wire::EndAhead>(&message)) {
    on_end_ahead(state, effects, *end, now);
  } else if (const auto* shutdown = std::get_if<wire::Shutdown>(&message)) {
    on_shutdown(state, effects, *shutdown, now);
  }
}

void on_timer(AgentState& state, AgentEffects& effects, Time now) {
  if (state.phase == AgentPhase::ended || check_lease(state, effects, now)) return;
  if (state.phase == AgentPhase::stopping) {
    if (now < state.shutdown_deadline) return;
    if (was_held_up(state.shutdown_deadline, now)) {
      state.shutdown_deadline = now + kCancelGrace;
      return;
    }
    state.shutdown_deadline = kNever;
    for (Slot& slot : state.slots)
      if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, "the pool was closed");
    return;
  }
  if (now >= state.bootstrap_deadline) {
    state.bootstrap_deadline = kNever;
    state.bootstrap_timed_out = true;
    effects.kill_bootstrap();
  }
  std::vector<SlotId> due;
  for (const auto& [time, id] : state.deadlines) {
    if (time > now) break;
    due.push_back(id);
  }
  std::ranges::sort(due);
  for (const SlotId id : due) {
    Slot& slot = state.slots[id.value];
    if (now >= slot.start_at) end_pause(state, slot);
    if (now >= slot.start_deadline)
      kill_slot(state, slot, effects,
                fmt::format("it sent no greeting within {:g} s", seconds(kWorkerStartTimeout)));
    if (now >= slot.kill_at && was_held_up(slot.kill_at, now)) {
      slot.kill_at = now + kCancelGrace;
      reindex(state, slot);
    } else if (now >= slot.kill_at) {
      kill_slot(state, slot, effects, "the task did not end when interrupted");
    }
    if (now >= front_deadline(state, slot))
      end_early(state, effects, slot.window.front(), TaskStatus::timed_out, now);
    if (now >= patience_end(state, slot)) end_patience(state, effects, slot, now);
  }
  start_queued(state, effects, now);
}

Time next_deadline(const AgentState& state) {
  if (state.phase == AgentPhase::ended) return kNever;
  const Time switch_off = std::min({state.lease_ends, state.lifetime_ends, state.warn_at});
  if (state.phase == AgentPhase::stopping) return std::min(state.shutdown_deadline, switch_off);
  const Time slots = state.deadlines.empty() ? kNever : state.deadlines.begin()->first;
  return std::min({state.bootstrap_deadline, switch_off, next_start(state), slots});
}

void sanity_check(const AgentState& state) {
  std::size_t placed = 0;
  const auto check_queue = [&](const std::deque<TaskId>& queue,
                               std::optional<std::uint32_t> worker) {
    std::uint64_t last = 0;
    for (const TaskId id : queue) {
      const auto found = state.tasks.find(id);
      SKYWARD_CHECK(found != state.tasks.end(), "queued task {} is unknown", id.value);
      SKYWARD_CHECK(!found->second.slot, "task {} is queued and in a window", id.value);
      SKYWARD_CHECK(found->second.run.worker == worker, "task {} in a wrong queue", id.value);
      SKYWARD_CHECK(found->second.arrival > last, "task {} out of order", id.value);
      last = found->second.arrival;
      ++placed;
    }
  };
  check_queue(state.queue, std::nullopt);
  for (std::uint32_t worker = 0; worker < state.pinned.size(); ++worker)
    check_queue(state.pinned[worker], worker);
  for (const Slot& slot : state.slots) {
    SKYWARD_CHECK(&slot == &state.slots[slot.id.value], "slot {}", slot.id.value);
    SKYWARD_CHECK(slot.window.size() <= kMaxWorkerWindow, "slot {}", slot.id.value);
    SKYWARD_CHECK(slot.start_at == kNever || slot.phase == SlotPhase::queued, "slot {}",
                  slot.id.value);
    SKYWARD_CHECK(slot.window.empty() || slot.phase == SlotPhase::ready,
                  "slot {} has tasks but no process", slot.id.value);
    Duration expected{};
    for (const TaskId id : slot.window) {
      const auto found = state.tasks.find(id);
      SKYWARD_CHECK(found != state.tasks.end() && found->second.slot == slot.id, "task {}",
                    id.value);
      SKYWARD_CHECK(slot.functions.contains(found->second.run.function), "task {}", id.value);
      expected += found->second.expected;
      ++placed;
    }
    SKYWARD_CHECK(expected == slot.expected, "slot {}", slot.id.value);
  }
  check_indexes(state);
  if (state.phase == AgentPhase::failed)
    SKYWARD_CHECK(state.tasks.empty(), "{}", state.tasks.size());
  SKYWARD_CHECK(placed == state.tasks.size(), "{} of {} tasks placed", placed, state.tasks.size());
}

}  // namespace skyward::agent
