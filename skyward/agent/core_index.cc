#include "skyward/agent/core_index.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

// Of all that the slot itself waits for.
Time deadline_of(const AgentState& state, const Slot& slot) {
  return std::min({slot.start_at, slot.start_deadline, slot.kill_at, front_deadline(state, slot),
                   patience_end(state, slot)});
}

bool is_idle(const Slot& slot) { return is_usable(slot) && slot.window.empty(); }

// Whether a short task may join those in the window.
bool is_open(const Slot& slot) {
  return is_usable(slot) && !slot.window.empty() && slot.window.size() < kMaxWorkerWindow &&
         !slot.withdrew && slot.kill_at == kNever;
}

template <typename Set, typename Key>
void keep(Set& set, const Key& key, bool member) {
  if (member) {
    set.insert(key);
  } else {
    set.erase(key);
  }
}

}  // namespace

void reindex(AgentState& state, Slot& slot) {
  if (const Time deadline = deadline_of(state, slot); deadline != slot.listed_deadline) {
    state.deadlines.erase({slot.listed_deadline, slot.id});
    slot.listed_deadline = deadline;
    keep(state.deadlines, std::pair(deadline, slot.id), deadline != kNever);
  }
  // Moved from place to place while tasks come and go.
  auto place = state.open.extract({slot.listed_expected, slot.id});
  slot.listed_expected = slot.expected;
  if (!is_open(slot)) {
    place = {};
  } else if (place) {
    place.value().first = slot.expected;
    state.open.insert(std::move(place));
  } else {
    state.open.insert({slot.expected, slot.id});
  }
  keep(state.idle, slot.id, is_idle(slot));
  keep(state.absent, slot.id, slot.phase == SlotPhase::absent);
}

bool is_usable(const Slot& slot) { return slot.phase == SlotPhase::ready && slot.killed.empty(); }

Time front_deadline(const AgentState& state, const Slot& slot) {
  if (slot.window.empty() || !slot.killed.empty()) return kNever;
  const AgentTask& task = state.tasks.at(slot.window.front());
  if (task.run.timeout_ms == 0 || task.ending) return kNever;
  const Duration limit = std::chrono::milliseconds(
      std::min<std::uint64_t>(task.run.timeout_ms, std::uint64_t{1} << 40));
  return slot.front_since + limit;
}

bool is_group(const wire::RunTask& run) { return run.group && run.stream_window > 1; }

Time patience_end(const AgentState& state, const Slot& slot) {
  if (slot.window.empty() || !slot.killed.empty()) return kNever;
  if (is_group(state.tasks.at(slot.window.front()).run)) {
    if (slot.took_rest) return kNever;
    return slot.moved_at + (slot.withdrew ? kWindowPatience : kGroupPatience);
  }
  return slot.window.size() > 1 && !slot.withdrew ? slot.front_since + kWindowPatience : kNever;
}

void check_indexes(const AgentState& state) {
  std::size_t timed = 0;
  std::size_t open = 0;
  std::size_t idle = 0;
  std::size_t absent = 0;
  for (const Slot& slot : state.slots) {
    const std::uint64_t id = slot.id.value;
    const Time deadline = deadline_of(state, slot);
    SKYWARD_CHECK(deadline == kNever || state.deadlines.contains({deadline, slot.id}), "slot {}",
                  id);
    SKYWARD_CHECK(!is_open(slot) || state.open.contains({slot.expected, slot.id}), "slot {}", id);
    SKYWARD_CHECK(!is_idle(slot) || state.idle.contains(slot.id), "slot {}", id);
    SKYWARD_CHECK(slot.phase != SlotPhase::absent || state.absent.contains(slot.id), "slot {}", id);
    timed += deadline != kNever ? 1 : 0;
    open += is_open(slot) ? 1 : 0;
    idle += is_idle(slot) ? 1 : 0;
    absent += slot.phase == SlotPhase::absent ? 1 : 0;
  }
  SKYWARD_CHECK(timed == state.deadlines.size() && open == state.open.size(), "{} timed, {} open",
                timed, open);
  SKYWARD_CHECK(idle == state.idle.size() && absent == state.absent.size(), "{} idle, {} absent",
                idle, absent);
  for (std::uint32_t worker = 0; worker < state.pinned.size(); ++worker)
    SKYWARD_CHECK(state.pinned[worker].empty() != state.pinned_waiting.contains(worker),
                  "worker {}", worker);
}

}  // namespace skyward::agent
