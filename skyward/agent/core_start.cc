#include "skyward/agent/core_start.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/agent/core_index.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

bool counts_as_starting(const Slot& slot, Time now) {
  return slot.phase == SlotPhase::starting && slot.killed.empty() &&
         now < slot.started_at + kStartPermitTimeout;
}

}  // namespace

void request_start(AgentState& state, AgentEffects& effects, Slot& slot, Time now) {
  slot.phase = SlotPhase::queued;
  slot.retry_at = {};
  slot.start_deadline = kNever;  // of a process before it
  slot.killed.clear();
  slot.functions.clear();
  slot.tail.clear();
  if (slot.start_failures > 0) {
    slot.start_at = now + kWorkerStartPause * (1 << (slot.start_failures - 1));
  } else {
    state.start_queue.push_back(slot.id);
  }
  reindex(state, slot);
  start_queued(state, effects, now);
}

void end_pause(AgentState& state, Slot& slot) {
  slot.start_at = kNever;
  reindex(state, slot);
  state.start_queue.push_back(slot.id);
}

void start_queued(AgentState& state, AgentEffects& effects, Time now) {
  std::erase_if(state.starting,
                [&](SlotId id) { return !counts_as_starting(state.slots[id.value], now); });
  while (!state.start_queue.empty() && state.starting.size() < state.max_starting) {
    Slot& slot = state.slots[state.start_queue.front().value];
    state.start_queue.pop_front();
    if (slot.phase != SlotPhase::queued) continue;  // killed meanwhile
    slot.phase = SlotPhase::starting;
    slot.info_changed = false;
    slot.started_at = now;
    slot.start_deadline = now + kWorkerStartTimeout;
    reindex(state, slot);
    state.starting.push_back(slot.id);
    effects.start_worker(slot.id);
  }
}

Time next_start(const AgentState& state) {
  Time next = kNever;
  if (state.start_queue.empty()) return next;
  for (const SlotId id : state.starting) {
    const Slot& slot = state.slots[id.value];
    if (slot.phase == SlotPhase::starting && slot.killed.empty())
      next = std::min(next, slot.started_at + kStartPermitTimeout);
  }
  return next;
}

void kill_slot(AgentState& state, Slot& slot, AgentEffects& effects, std::string reason) {
  if (slot.phase == SlotPhase::queued) {
    slot.phase = SlotPhase::absent;
    slot.start_at = kNever;
    return reindex(state, slot);
  }
  if (!slot.killed.empty()) return;
  slot.killed = std::move(reason);
  slot.kill_at = kNever;
  slot.start_deadline = kNever;
  reindex(state, slot);
  effects.kill_worker(slot.id);
}

}  // namespace skyward::agent
