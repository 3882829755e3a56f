#include "skyward/agent/core_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/agent/core_index.h"
#include "skyward/agent/core_schedule.h"
#include "skyward/agent/core_start.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/topology.h"

namespace skyward::agent {
namespace {

using wire::TaskStatus;

constexpr std::uint64_t kMaxLeaseMs = std::uint64_t{1} << 40;  // some decades

// "0 NAME=VALUE" or "* NAME=VALUE"; the script is ours, so what does not fit is no variable.
void set_variable(AgentState& state, const std::string& line) {
  const std::size_t blank = line.find(' ');
  const std::size_t equals = line.find('=', std::min(blank, line.size()));
  if (equals == std::string::npos) return;
  const std::string which = line.substr(0, blank);
  const std::string name = line.substr(blank + 1, equals - blank - 1);
  for (std::size_t worker = 0; worker < state.told_environment.size(); ++worker) {
    if (which == "*" || which == std::to_string(worker))
      state.told_environment[worker].emplace_back(name, line.substr(equals + 1));
  }
}

std::uint64_t elapsed_ms(const AgentState& state, Time now) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now - state.configured_at).count());
}

// What a script does next that does not say what it begins.
std::string step_after(const std::string& step) {
  if (step == "uv") return "apt";
  if (step == "apt") return "deps";
  return "skyward";
}

void start_workers(AgentState& state, AgentEffects& effects, Time now) {
  state.phase = AgentPhase::starting;
  for (Slot& slot : state.slots)
    if (slot.place == 0) request_start(state, effects, slot, now);
}

// So that no time that the engine sends overflows.
std::chrono::milliseconds to_duration(std::uint64_t ms) {
  return std::chrono::milliseconds(std::min(ms, kMaxLeaseMs));
}

void start_lifetime(AgentState& state, Time now) {
  if (state.configure.lifetime_ms == 0) return;
  const Duration lifetime = to_duration(state.configure.lifetime_ms);
  state.lifetime_ends = now + lifetime;
  state.pool_ends = state.lifetime_ends - std::min(kLifetimeGrace, lifetime / 2);
  state.warn_at = state.pool_ends - std::min(kEndWarning, (state.pool_ends - now) / 2);
}

void finish(AgentState& state, AgentEffects& effects, int code, std::string reason) {
  if (state.phase == AgentPhase::ended) return;
  state.phase = AgentPhase::ended;
  state.end_reason = std::move(reason);
  effects.exit(code);
}

// Ends this machine, too, where there is a command for that: neither a driver that goes away nor a
// cloud that does not answer it leaves one running.
void finish_with_machine(AgentState& state, AgentEffects& effects, std::string reason) {
  if (!state.configure.end_command.empty()) effects.end_machine(state.configure.end_command);
  finish(state, effects, 0, std::move(reason));
}

void kill_bootstrap_if_any(const AgentState& state, AgentEffects& effects) {
  if (state.phase == AgentPhase::bootstrapping) effects.kill_bootstrap();
}

// Tells the workers' processes what has changed of their instance info; one that starts, when it
// greets.
void tell_workers(AgentState& state, AgentEffects& effects) {
  for (Slot& slot : state.slots) {
    if (slot.phase == SlotPhase::starting) slot.info_changed = true;
    if (slot.phase == SlotPhase::ready && slot.killed.empty()) tell_info(state, effects, slot);
  }
}

bool is_ending(const AgentState& state) {
  return state.phase == AgentPhase::stopping || state.phase == AgentPhase::failed ||
         state.phase == AgentPhase::ended;
}

void warn_workers(const AgentState& state, AgentEffects& effects, Duration left) {
  for (const Slot& slot : state.slots)
    if (slot.phase == SlotPhase::ready) effects.warn(slot.id, left);
}

// The engine ends the pool at `pool_ends`. A worker that starts later is told when it greets.
void announce_end(AgentState& state, AgentEffects& effects, Time now, std::string_view why) {
  state.warn_at = kNever;
  const Duration left = std::max(state.pool_ends - now, Duration{});
  say(effects, fmt::format("this node shuts down in {:g} s: {}", seconds(left), why));
  if (state.pool_ends < state.gone_at) warn_workers(state, effects, left);
}

// Ends everything on this machine, and the machine where there is a command for that.
void end_all(AgentState& state, AgentEffects& effects, std::string reason) {
  kill_bootstrap_if_any(state, effects);
  for (Slot& slot : state.slots)
    if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, reason);
  finish_with_machine(state, effects, std::move(reason));
}

}  // namespace

void say(AgentEffects& effects, std::string_view text) {
  wire::OutputLine line;
  line.stream = wire::OutputStream::err;
  line.text = fmt::format("skyward: {}", text);
  effects.send(wire::Output{{std::move(line)}});
}

void on_configure(AgentState& state, AgentEffects& effects, const wire::Configure& configure,
                  Time now) {
  if (state.phase != AgentPhase::greeting) return;  // once, by contract
  state.configure = configure;
  state.configure.concurrency = std::max(1U, configure.concurrency);
  state.configured_at = now;
  on_heard(state, now);
  start_lifetime(state, now);
  const auto workers = static_cast<std::uint32_t>(configure.workers.size());
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (std::uint32_t place = 0; place < state.configure.concurrency; ++place) {
      Slot& slot = state.slots.emplace_back();
      slot.id = SlotId{worker * state.configure.concurrency + place};
      slot.worker = worker;
      slot.place = place;
      reindex(state, slot);
    }
  }
  state.pinned.resize(workers);
  state.told_environment.resize(workers);
  state.phase = AgentPhase::bootstrapping;
  if (configure.bootstrap.empty()) return start_workers(state, effects, now);
  state.step = "uv";
  state.bootstrap_deadline = now + kBootstrapTimeout;
  effects.start_bootstrap(state.configure);
}

void on_peer_moved(AgentState& state, AgentEffects& effects, const wire::PeerMoved& moved) {
  const Peer peer{.node = static_cast<int>(moved.node.value), .private_ip = moved.address};
  bool changed = false;
  for (wire::WorkerSpec& worker : state.configure.workers) {
    for (auto& [name, value] : worker.environment) {
      if (name != kInstanceInfoVariable) continue;
      std::string text = with_peer(value, peer);
      changed = changed || text != value;
      value = std::move(text);
    }
  }
  if (changed) tell_workers(state, effects);
}

void tell_info(AgentState& state, AgentEffects& effects, Slot& slot) {
  slot.info_changed = false;
  for (const auto& [name, value] : worker_environment(state, slot.worker)) {
    if (name == kInstanceInfoVariable) effects.tell_instance_info(slot.id, value);
  }
}

void become_ready(AgentState& state, AgentEffects& effects, Time now) {
  if (state.phase != AgentPhase::starting || !state.accelerators) return;
  for (const Slot& slot : state.slots)
    if (slot.place == 0 && slot.phase != SlotPhase::ready) return;
  state.phase = AgentPhase::ready;
  effects.send(wire::Ready{.accelerators = *state.accelerators,
                           .elapsed_ms = elapsed_ms(state, now),
                           .peer_port = state.peer_port,
                           .memory_bytes = state.memory_bytes,
                           .device_error = state.device_error,
                           .devices_unknown = state.devices_unknown});
  dispatch(state, effects, now);
}

void fail_node(AgentState& state, AgentEffects& effects, wire::Failed failed) {
  state.phase = AgentPhase::failed;
  const std::string detail =
      fmt::format("the node failed in step {}: {}", failed.step, failed.reason);
  effects.send(std::move(failed));
  for (Slot& slot : state.slots)
    if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, detail);
  state.queue.clear();
  for (auto& queue : state.pinned) queue.clear();
  state.pinned_waiting.clear();
  state.tasks.clear();  // the engine runs them on other nodes
}

void on_shutdown(AgentState& state, AgentEffects& effects, const wire::Shutdown& shutdown,
                 Time now) {
  if (state.phase == AgentPhase::stopping || state.phase == AgentPhase::ended) return;
  kill_bootstrap_if_any(state, effects);
  state.phase = AgentPhase::stopping;
  state.bootstrap_deadline = kNever;
  state.shutdown_deadline = now + std::chrono::milliseconds(shutdown.grace_ms);
  for (Slot& slot : state.slots) {
    if (slot.phase == SlotPhase::absent || !slot.killed.empty()) continue;
    slot.kill_at = kNever;
    slot.start_deadline = kNever;
    reindex(state, slot);
    if (slot.phase != SlotPhase::ready) {  // it has nothing to save
      kill_slot(state, slot, effects, "the pool was closed");
      continue;
    }
    for (const TaskId id : slot.window) effects.interrupt(slot.id, id);
    effects.stop_worker(slot.id);
  }
  if (all_ended(state)) finish_closed(state, effects);
}

bool all_ended(const AgentState& state) { return state.absent.size() == state.slots.size(); }

void finish_closed(AgentState& state, AgentEffects& effects) {
  const std::string reason = "the pool was closed";
  // A cloud may charge less for a machine that it preempts than for one that ends itself before.
  if (state.gone_at != kNever) return finish(state, effects, 0, reason);
  finish_with_machine(state, effects, reason);
}

bool check_lease(AgentState& state, AgentEffects& effects, Time now) {
  if (now >= state.lifetime_ends) {
    end_all(state, effects,
            fmt::format("the pool's lifetime of {:g} s has expired",
                        static_cast<double>(state.configure.lifetime_ms) / 1000.0));
    return true;
  }
  if (now >= state.lease_ends) {
    end_all(state, effects,
            fmt::format("no message from the driver for {:g} s",
                        static_cast<double>(state.configure.lease_ms) / 1000.0));
    return true;
  }
  if (now >= state.warn_at) {
    announce_end(state, effects, now, "the pool's lifetime expires");
  }
  return false;
}

void on_heard(AgentState& state, Time now) {
  if (state.configure.lease_ms > 0) state.lease_ends = now + to_duration(state.configure.lease_ms);
}

void on_disconnected(AgentState& state, AgentEffects& effects, const std::string& reason) {
  if (state.phase == AgentPhase::ended) return;
  kill_bootstrap_if_any(state, effects);
  for (Slot& slot : state.slots)
    if (slot.phase != SlotPhase::absent) kill_slot(state, slot, effects, reason);
  finish(state, effects, 0, reason);
}

void on_preempted(AgentState& state, AgentEffects& effects, Time gone_at, std::string reason,
                  Time now) {
  if (state.gone_at != kNever || is_ending(state)) return;
  state.gone_at = std::max(gone_at, now);
  effects.send(wire::Preempted{.left_ms = static_cast<std::uint64_t>((state.gone_at - now) / 1ms),
                               .reason = std::move(reason)});
  const bool ends_before = state.warn_at == kNever && state.pool_ends <= state.gone_at;
  if (!ends_before) warn_workers(state, effects, state.gone_at - now);
}

void on_end_ahead(AgentState& state, AgentEffects& effects, const wire::EndAhead& end, Time now) {
  if (is_ending(state)) return;
  const Time at = now + to_duration(end.left_ms);
  if (state.pool_ends <= at) return;  // all are told, or will be
  state.pool_ends = at;
  announce_end(state, effects, now, end.reason);
}

void on_bootstrap_step(AgentState& state, AgentEffects& effects, const std::string& line,
                       Time now) {
  if (state.phase != AgentPhase::bootstrapping || line.empty()) return;
  constexpr std::string_view kBegin = "begin ";
  constexpr std::string_view kSay = "say ";
  constexpr std::string_view kWorker = "worker ";
  if (line.starts_with(kWorker)) return set_variable(state, line.substr(kWorker.size()));
  if (line.starts_with(kSay)) return say(effects, line.substr(kSay.size()));
  if (line.starts_with(kBegin)) {
    state.step = line.substr(kBegin.size());
    return;
  }
  state.step = step_after(line);
  effects.send(wire::BootstrapStep{.step = line, .elapsed_ms = elapsed_ms(state, now)});
}

void on_bootstrap_end(AgentState& state, AgentEffects& effects, const BootstrapEnd& end, Time now) {
  if (state.phase != AgentPhase::bootstrapping) return;
  state.bootstrap_deadline = kNever;
  if (end.ok) return start_workers(state, effects, now);
  const std::string reason = state.bootstrap_timed_out
                                 ? fmt::format("timed out after {:g} s", seconds(kBootstrapTimeout))
                                 : end.reason;
  fail_node(state, effects,
            {.step = state.step, .command = end.command, .reason = reason, .lines = end.lines});
}

void on_accelerators(AgentState& state, AgentEffects& effects, std::vector<std::string> names,
                     Time now, std::string_view silent, std::string error) {
  state.accelerators = std::move(names);
  state.device_error = std::move(error);
  const bool was_unknown = std::exchange(state.devices_unknown, !silent.empty());
  if (state.devices_unknown && !was_unknown && !is_ending(state)) {
    say(effects, fmt::format("{} does not answer on this machine: the node starts without it, and "
                             "tasks that use its devices may hang",
                             silent));
  }
  if (state.phase != AgentPhase::starting && state.phase != AgentPhase::ready) return;
  if (!state.accelerators->empty()) tell_workers(state, effects);
  become_ready(state, effects, now);
}

wire::KeyValues worker_environment(const AgentState& state, std::uint32_t worker) {
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : state.configure.workers[worker].environment)
    values[name] = value;
  if (const auto info = values.find(kInstanceInfoVariable);
      info != values.end() && state.accelerators)
    info->second = with_accelerators(std::move(info->second), *state.accelerators);
  for (const auto& [name, value] : state.told_environment[worker]) values[name] = value;
  return {values.begin(), values.end()};
}

}  // namespace skyward::agent
