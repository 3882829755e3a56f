#include "skyward/engine/core_close.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::engine {
namespace {

constexpr std::size_t kMostNamed = 5;
// What began the end may come twice: from a terminal and from a program that passes signals on.
constexpr Duration kSameSignal = 500ms;

Status machines_left(const EngineState& state, const std::vector<InstanceId>& ids,
                     const Error& why) {
  if (!provider_rents(state.spec.provider.name)) {
    return fail(ErrorKind::unavailable,
                fmt::format("{} of {} did not close: {}", fmt::join(ids, ", "),
                            provider_label(state.spec.provider.name), why.message),
                why.hint.empty() ? "look there for what is left of the pool" : why.hint);
  }
  return fail(ErrorKind::unavailable,
              fmt::format("{} of {} in {} did not terminate and may still cost money: {}",
                          fmt::join(ids, ", "), provider_label(state.spec.provider.name),
                          state.placement.cluster().region, why.message),
              "run 'skyward gc' when the cloud answers again, and check its console");
}

// "node 3", "nodes 0, 1, 2, 3, 4 and 7 more".
std::string names_text(std::string_view kind, const std::vector<std::string>& names) {
  const std::size_t named = std::min(names.size(), kMostNamed);
  const auto last = names.begin() + static_cast<std::ptrdiff_t>(named);
  std::string text = fmt::format("{}{} {}", kind, names.size() == 1 ? "" : "s",
                                 fmt::join(names.begin(), last, ", "));
  if (names.size() > named) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

// Of nodes that were not reached yet, why.
std::string unreached_text(const EngineState& state) {
  std::string text;
  std::size_t count = 0;
  for (const Node& node : state.nodes) {
    if (node.state != NodeState::connecting || node.unreached.empty()) continue;
    if (++count > kMostNamed) continue;
    text += fmt::format("; node {} was not reached: {}", node.id.value, node.unreached);
  }
  if (count > kMostNamed) text += fmt::format("; nor were {} more", count - kMostNamed);
  return text;
}

std::vector<std::string> names_of_stopping(const EngineState& state) {
  std::vector<std::string> names;
  for (const Node& node : state.nodes) {
    if (node.state == NodeState::stopping) names.push_back(fmt::to_string(node.id.value));
  }
  return names;
}

// What closing waits for, and for how long at most.
std::string wait_text(const EngineState& state, Time now) {
  std::vector<std::string> names = names_of_stopping(state);
  if (!names.empty()) {
    return fmt::format("waiting for {} to stop; killing {} in {:.1f} s, or at once on Ctrl-C",
                       names_text("node", names), names.size() == 1 ? "it" : "them",
                       seconds(state.close_deadline - now));
  }
  const std::string& provider = provider_label(state.spec.provider.name);
  const std::string limit = fmt::format(", {:.0f} s at most", seconds(kProvisionTimeout));
  if (state.placement.is_moving_out()) {
    return fmt::format("waiting for {} to remove what the pool has used in the previous region{}",
                       provider, limit);
  }
  if (state.phase == Phase::closing) {
    const Duration most = state.options.provision_timeout;  // with a queue, of months
    return fmt::format(
        "waiting for {} to finish provisioning machines, which are then terminated{}", provider,
        most > std::chrono::hours(1) ? "" : fmt::format("; {:.0f} s at most", seconds(most)));
  }
  if (state.phase == Phase::removing) {
    return fmt::format("waiting for {} to remove what the pool has used there{}", provider, limit);
  }
  names = state.releases.asked();
  if (names.empty()) return {};  // they are asked again later, which was said
  return fmt::format("waiting for {} to terminate {}{}", provider, names_text("machine", names),
                     limit);
}

// A cloud that is asked for its charges has prices: without one, the total is too low.
void tell_unpriced(const EngineState& state, EngineEffects& effects) {
  const CostBook& book = state.costs.book();
  const int unpriced = book.unpriced();
  if (unpriced == 0 || state.options.charges_interval == Duration{}) return;
  effects.emit(
      Notice{.message = fmt::format("{} did not say what {} of {} machines cost: the total counts "
                                    "them as free",
                                    provider_label(state.spec.provider.name), unpriced,
                                    book.machines(true) + book.machines(false)),
             .level = "warning"});
}

// `left`: which machines may still be there.
void say_closed(EngineState& state, EngineEffects& effects, Time now, Status left = {}) {
  state.phase.set(Phase::closed);
  state.tell_wait_at = kNever;
  PoolStopped stopped;
  stopped.pool = state.options.job_id;
  const Time ready = state.ready_at == Time{} ? now : state.ready_at;
  stopped.setup_seconds = seconds(ready - state.opened_at);
  stopped.total_seconds = seconds(now - state.opened_at);
  if (const Tasks::FirstCall& first = state.tasks.first_call(); first.answered != Time{}) {
    stopped.first_call_seconds = seconds(first.answered - first.submitted);
    stopped.first_call_run_seconds =
        std::min(static_cast<double>(first.run_ns) * 1e-9, stopped.first_call_seconds);
  }
  for (const Node& node : state.nodes) {
    if (node.instance.id.empty()) continue;
    const Done& done = state.tasks.on(node.id).done;
    stopped.nodes.push_back({.node = static_cast<int>(node.id.value),
                             .instance_id = node.instance.id,
                             .tasks = done.tasks,
                             .failed = done.failed,
                             .busy_seconds = done.busy_seconds,
                             .up_seconds = node.up_seconds});
  }
  tell_unpriced(state, effects);
  state.costs.tell_final(effects, now, stopped);
  effects.emit(std::move(stopped));
  if (!std::exchange(state.ready_told, true)) {
    effects.opened(std::unexpected(state.open_error.value_or(
        Error{ErrorKind::cancelled, "the pool was closed while it was opening", {}})));
  }
  effects.closed(std::move(left));
}

std::string timeout_text(const EngineState& state) {
  const CloudClock& clock = state.costs.clock();
  std::string text = fmt::format("{} s", seconds(state.spec.timeout));
  if (clock.rate == 1) return text;
  return text + fmt::format(" of the cloud's time ({:g} s here)",
                            seconds(clock.to_local(state.spec.timeout)));
}

}  // namespace

// ------------------------------------------------------------------------------ what begins it

void on_close(EngineState& state, EngineEffects& effects, Time now) {
  if (state.phase == Phase::idle) {
    state.opened_at = now;
    say_closed(state, effects, now);
  } else if (!is_closing(state.phase)) {
    start_closing(state, effects, now);
  }
}

void fail_open(EngineState& state, EngineEffects& effects, Time now, Error why) {
  if (is_closing(state.phase)) return;
  effects.emit(ErrorEvent{why.message, std::nullopt});
  state.open_error = std::move(why);
  start_closing(state, effects, now);
}

void end_lifetime(EngineState& state, EngineEffects& effects, Time now) {
  if (is_closing(state.phase)) return;
  const bool opening = is_opening(state.phase);
  const std::string unreached = opening ? unreached_text(state) : std::string();
  const Error why{ErrorKind::timeout,
                  fmt::format("the pool's timeout of {} has expired{}{}; releasing its machines",
                              timeout_text(state), opening ? " while it opened" : "", unreached),
                  unreached.empty() ? "allow more time: ComputePool(timeout=seconds)"
                                    : "see why it was not reached, or allow more time: "
                                      "ComputePool(timeout=seconds)"};
  if (opening) {
    fail_open(state, effects, now, why);
    return;
  }
  effects.emit(ErrorEvent{line_of(why), std::nullopt});
  // What the budget has ended, more time does not continue.
  state.expired = !state.budget.is_draining();
  if (state.expired) state.tasks.refuse(why);
  start_closing(state, effects, now);
}

void tell_cut_off(EngineEffects& effects, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return;
  effects.emit(ErrorEvent{
      fmt::format("{} did not unmount {} volumes in time; files that were still being written may "
                  "be incomplete or missing",
                  names_text("node", nodes), nodes.size() == 1 ? "its" : "their"),
      std::nullopt});
}

// ----------------------------------------------------------------------------------- the steps

void start_closing(EngineState& state, EngineEffects& effects, Time now) {
  state.phase.set(Phase::closing);
  effects.emit(PoolStopping{});
  effects.stop_launching();
  state.tasks.close(effects, now);
  state.closing_at = now;
  state.close_deadline = now + closing_time(state.spec);
  state.tell_wait_at = now + kTellWaitAfter;
  for (const Node& node : state.nodes) {
    state.costs.on_work(node.instance.id, state.tasks.work(now, node.id));
    if (node.launched) effects.emit(InstanceStopping{node.instance.id});
    const auto& successor = state.orders[node.id].successor;
    if (successor) effects.emit(InstanceStopping{successor->id});
    state.nodes.shut_down(effects, node.id, now);
  }
  release_machines(state, effects);
}

void check_close(EngineState& state, EngineEffects& effects, Time now) {
  if (state.phase != Phase::closing || state.close_deadline > now) return;
  state.close_deadline = kNever;
  if (!state.spec.volumes.empty()) tell_cut_off(effects, names_of_stopping(state));
  state.nodes.cut_off(effects);
  release_machines(state, effects);
}

bool on_hurry(EngineState& state, EngineEffects& effects, Time now) {
  if (!is_closing(state.phase) || now < state.closing_at + kSameSignal) return false;
  if (state.phase == Phase::closing && state.close_deadline != kNever) {
    state.close_deadline = now;
    check_close(state, effects, now);
  }
  return true;
}

void release_machines(EngineState& state, EngineEffects& effects) {
  if (state.phase != Phase::closing || state.nodes.any_alive()) return;
  std::vector<InstanceId> machines = state.releases.take_held();
  for (const Node& node : state.nodes)
    std::ranges::move(take_machines(state, node.id), std::back_inserter(machines));
  if (state.orders.requests() > 0 || state.placement.is_moving_out()) {
    // Those that are still launched, or removed elsewhere, may take minutes to end.
    if (!machines.empty()) state.releases.release(effects, std::move(machines));
    return;
  }
  state.phase.set(Phase::terminating);
  state.close_deadline = kNever;
  state.releases.release_last(effects, std::move(machines));
  remove_shared(state, effects);
}

void remove_shared(EngineState& state, EngineEffects& effects) {
  if (state.phase != Phase::terminating || !state.releases.is_done()) return;
  state.phase.set(Phase::removing);
  if (state.placement.is_prepared()) state.bills.ask_last(effects, state.costs.book());
  effects.teardown();
}

void finish_closing(EngineState& state, EngineEffects& effects, Time now, const Status& removed,
                    const std::vector<InstanceId>& standing) {
  std::vector<InstanceId> left = state.releases.take_left();
  // Those of failed launches: they were never nodes.
  const std::size_t known = left.size();
  std::ranges::copy_if(standing, std::back_inserter(left), [&](const InstanceId& id) {
    return std::ranges::find(left, id) == left.end();
  });
  if (left.size() > known && !std::exchange(state.found_standing, true)) {
    state.phase.set(Phase::terminating);
    return state.releases.release_last(effects, std::move(left));
  }
  if (removed) {
    state.costs.on_all_gone(now);
  } else {
    effects.emit(ErrorEvent{removed.error().message, std::nullopt});
  }
  say_closed(state, effects, now,
             removed || left.empty() ? Status() : machines_left(state, left, removed.error()));
}

void check_wait(EngineState& state, EngineEffects& effects, Time now) {
  if (state.tell_wait_at > now) return;
  state.tell_wait_at = now + kTellWaitAgain;
  if (std::string text = wait_text(state, now); !text.empty()) {
    effects.emit(Notice{.message = "closing: " + std::move(text)});
  }
}

}  // namespace skyward::engine
