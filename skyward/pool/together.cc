#include "skyward/pool/together.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "skyward/base/error.h"
#include "skyward/engine/loop.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;

// How late a failure of a higher rank may be noticed.
constexpr Duration kLook = 100ms;

bool is_failed_with(const Outcome& outcome, ErrorKind kind) {
  return outcome.status == OutcomeStatus::failed && outcome.error.kind == kind;
}

bool is_lost(const Outcome& outcome) {
  return is_failed_with(outcome, ErrorKind::lost) ||
         is_failed_with(outcome, ErrorKind::unreachable);
}

bool has_failed(const Outcome& outcome) { return outcome.status != OutcomeStatus::ok; }

}  // namespace

std::vector<Outcome> await_together(std::vector<Handle>& handles, Duration grace) {
  std::vector<std::optional<Outcome>> ended(handles.size());
  std::optional<Time> deadline;
  std::size_t left = handles.size();
  while (left > 0) {
    bool waited = false;
    for (std::size_t rank = 0; rank < handles.size(); ++rank) {
      if (ended[rank]) continue;
      if (!std::exchange(waited, true)) handles[rank].wait(kLook);
      if (!handles[rank].done()) continue;
      ended[rank] = handles[rank].take();
      --left;
      if (is_lost(*ended[rank])) {
        deadline = engine::EngineLoop::now();
      } else if (has_failed(*ended[rank]) && !deadline) {
        deadline = engine::EngineLoop::now() + grace;
      }
    }
    if (!deadline || engine::EngineLoop::now() < *deadline) continue;
    for (std::size_t rank = 0; rank < handles.size(); ++rank) {
      if (!ended[rank]) handles[rank].cancel();
    }
    deadline = kNever;
  }
  std::vector<Outcome> outcomes;
  for (std::optional<Outcome>& outcome : ended) outcomes.push_back(*std::move(outcome));
  return outcomes;
}

std::vector<std::size_t> in_order(const std::vector<Outcome>& outcomes) {
  std::vector<std::size_t> ranks(outcomes.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  const auto weight = [&](std::size_t rank) {
    const Outcome& outcome = outcomes[rank];
    // Frameworks abort a worker when another has failed.
    const bool died =
        is_failed_with(outcome, ErrorKind::task) && !outcome.error.message.contains("SIGABRT");
    if (is_lost(outcome) || died) return 0;
    // Who ran out of time, or was stopped, had waited for the others.
    if (is_failed_with(outcome, ErrorKind::timeout)) return 2;
    return is_failed_with(outcome, ErrorKind::cancelled) ? 3 : 1;
  };
  std::ranges::stable_sort(ranks, {}, weight);
  return ranks;
}

}  // namespace skyward
