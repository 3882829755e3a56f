#include "skyward/engine/node_loads.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "skyward/engine/effects.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;

// How far a node may fall behind before its waiting tasks are recalled for an idle one.
constexpr Duration kRecallDelay = 5ms;
// ... and how far the delay grows while recalls bring nothing.
constexpr Duration kMaxRecallDelay = 1s;
// How improbable failures in a row must be, if calls failed on all nodes alike, before their node
// is blamed: pools run millions of calls, and a sound node that gets none for a while costs money.
constexpr double kMaxChance = 1e-8;
// Answers of a machine, beyond the first one of each slot, before its way counts as known.
constexpr std::uint32_t kFewAnswers = 8;
// Weight of the newest run time in the running mean.
constexpr double kMeanWeight = 1.0 / 16;

}  // namespace

// What has waited behind other tasks took longer, and so did the first call of a process, which
// loaded its modules: the shortest time counts. A stream may have waited for its reader, and large
// data takes a time of its own: sending more of it ahead would only fill the node's memory.
void NodeLoad::note_way(const Task& task, const wire::TaskResult& result, Time now) {
  if (result.status != wire::TaskStatus::ok && result.status != wire::TaskStatus::raised) return;
  const bool is_stream = task.call.options.stream_window > 0 && !task.call.options.group;
  if (task.is_bound() || is_stream) return;
  const Duration run(static_cast<std::int64_t>(std::min(result.run_ns, wire::kMaxRunNs)));
  const Duration took = std::max(now - task.sent - run, Duration{});
  if (took >= way && answers >= slots + kFewAnswers) return;
  const auto is_large = [](const wire::Payload& payload) {
    return std::ranges::any_of(payload.buffers, &wire::Buffer::in_blob);
  };
  if (is_large(task.call.arguments) || is_large(result.payload)) return;
  ++answers;
  way = std::min(took, way);
}

Duration NodeLoad::known_way() const {
  const bool is_known = answers >= slots + kFewAnswers;
  return is_known && way > kPrefetchWork ? way : Duration{};
}

Loads::Loads(std::size_t nodes) : nodes_(nodes) {
  for (std::size_t i = 0; i < nodes; ++i) nodes_[i].id = NodeId{static_cast<std::uint32_t>(i)};
}

std::uint32_t Loads::prefetch_depth(const NodeLoad& node) const {
  if (mean_run_ns_ < 0) return 0;
  const auto work = static_cast<double>((kPrefetchWork + node.known_way()).count());
  const double tasks = std::floor(work / std::max(mean_run_ns_, 1.0));
  const auto limit = static_cast<double>(kMaxPrefetchPerSlot);
  return static_cast<std::uint32_t>(std::min(tasks, limit)) * node.slots;
}

bool Loads::has_spare_room(const NodeLoad& node) const {
  const std::uint32_t room = node.slots + prefetch_depth(node);
  return node.takes_tasks() && !node.recalling && node.outstanding < std::min(room, max_given_);
}

void Loads::list(NodeLoad& node, bool warm) {
  if (has_free_slot(node)) {
    if (!std::exchange(node.listed_free, true)) {
      const bool first = warm && node.outstanding == 0;
      free_.insert(first ? free_.begin() : free_.end(), node.id);
    }
  } else if (has_spare_room(node)) {
    if (!std::exchange(node.listed_spare, true)) spare_.push_back(node.id);
  }
  if (occupied(node) > node.slots) {
    list_loaded(node);
  } else {
    unlist_loaded(node);
  }
}

void Loads::list_loaded(NodeLoad& node) {
  if (std::exchange(node.listed_loaded, true)) return;
  node.loaded_place = static_cast<std::uint32_t>(loaded_.size());
  loaded_.push_back(node.id);
}

void Loads::unlist_loaded(NodeLoad& node) {
  if (!std::exchange(node.listed_loaded, false)) return;
  const NodeId last = loaded_.back();
  loaded_[node.loaded_place] = last;
  at(last).loaded_place = node.loaded_place;
  loaded_.pop_back();
}

NodeLoad* Loads::take() {
  while (!free_.empty()) {
    NodeLoad& node = at(free_.front());
    free_.pop_front();
    node.listed_free = false;
    if (has_free_slot(node)) return &node;
  }
  while (!spare_.empty()) {
    NodeLoad& node = at(spare_.front());
    spare_.pop_front();
    node.listed_spare = false;
    if (has_spare_room(node)) return &node;
  }
  return nullptr;
}

void Loads::clear(NodeLoad& node) {
  node.outstanding = 0;
  node.recalling = false;
  node.set_aside = false;
  node.failing = false;
  node.functions.clear();
  node.way = kMaxWay;
  node.answers = 0;
  unlist_loaded(node);
}

void Loads::set_failing_aside(NodeLoad& node, Time now) {
  if (node.set_aside) return;
  node.failed_row.aside = std::clamp(2 * node.failed_row.aside, kFirstSetAside, kSetAside);
  set_aside_for(node, now, node.failed_row.aside);
}

void Loads::set_aside_for(NodeLoad& node, Time now, Duration pause) {
  if (std::exchange(node.set_aside, true)) return;
  const auto later =
      std::ranges::upper_bound(aside_, now + pause, {}, [](const auto& one) { return one.first; });
  aside_.emplace(later, now + pause, node.id);
}

void Loads::bring_back() {
  NodeLoad& node = at(aside_.front().second);
  aside_.pop_front();
  if (std::exchange(node.set_aside, false)) list(node);
}

bool Loads::bring_all_back() {
  if (aside_.empty() || std::ranges::any_of(nodes_, &NodeLoad::takes_tasks)) return false;
  while (!aside_.empty()) bring_back();
  return true;
}

void Loads::recall_all(EngineEffects& effects, NodeLoad& node) {
  if (node.outstanding == 0 || std::exchange(node.recalling, true)) return;
  effects.send(node.id, wire::RecallTasks{node.outstanding});
}

void Loads::plan_recall(Time now) {
  if (recall_at_ != kNever || loaded_.empty() || free_.empty()) return;
  recall_at_ = now + std::max(recall_pause_, kRecallDelay);
}

void Loads::stop_recalls() {
  recall_at_ = kNever;
  while (!loaded_.empty()) unlist_loaded(at(loaded_.back()));
}

void Loads::recall(EngineEffects& effects, bool tasks_wait) {
  recall_at_ = kNever;
  if (tasks_wait || loaded_.empty()) return;
  std::erase_if(free_, [&](NodeId id) {
    NodeLoad& node = at(id);
    node.listed_free = has_free_slot(node);
    return !node.listed_free;
  });
  if (free_.empty()) return;
  for (const NodeId id : loaded_) {
    NodeLoad& node = at(id);
    if (std::exchange(node.recalling, true)) continue;
    SKYWARD_CHECK(occupied(node) > node.slots, "node {}", id.value);
    effects.send(id, wire::RecallTasks{occupied(node) - node.slots});
  }
}

void Loads::on_recalled(bool useful) {
  recall_pause_ =
      useful ? kRecallDelay : std::min(2 * std::max(recall_pause_, kRecallDelay), kMaxRecallDelay);
}

bool Loads::fails_alone(NodeLoad& node, wire::TaskStatus status) {
  if (status == wire::TaskStatus::ok) {
    node.failing = false;
    ++ok_;
    return false;
  }
  if (status != wire::TaskStatus::raised && status != wire::TaskStatus::worker_died) return false;
  FailedRow& row = node.failed_row;
  if (!std::exchange(node.failing, true)) row = {.ok_before = ok_, .failed_before = failed_};
  ++failed_;
  ++row.calls;
  const auto ok = static_cast<double>(ok_ - row.ok_before);
  const auto failed = static_cast<double>(failed_ - row.failed_before - row.calls);
  const double share = (failed + 1) / (ok + failed + 2);  // of other nodes' calls, as far as known
  return ok > 0 && std::pow(share, row.calls) < kMaxChance;
}

void Loads::note_run(const wire::TaskResult& result) {
  // A task that was ended would have run longer, nobody knows how long.
  if (result.status != wire::TaskStatus::ok && result.status != wire::TaskStatus::raised) return;
  const auto run = static_cast<double>(std::min(result.run_ns, wire::kMaxRunNs));
  // Longer than expected counts at once, shorter only slowly: prefetching a long task hurts.
  if (mean_run_ns_ < 0 || run > 4 * mean_run_ns_) {
    mean_run_ns_ = run;
  } else {
    mean_run_ns_ += kMeanWeight * (run - mean_run_ns_);
  }
}

}  // namespace skyward::engine
