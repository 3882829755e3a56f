#pragma once

// Decides whether a caller spins before it sleeps, and the engine between two calls: sleeping costs
// two context switches and, on most machines, the wake-up of an idle core (docs/decisions/0006).
// Spinning pays while functions are quick and few calls are in flight; a batch needs the cores
// itself. With a single core, nobody spins. Where answers always take longer than a caller spins,
// as from distant nodes, few callers do. Any thread.

#include <atomic>
#include <cstdint>

#include "skyward/base/time.h"
#include "skyward/spec/limits.h"

namespace skyward {

class Pace {
 public:
  // `cores`: the number of cores that this process may keep busy.
  explicit Pace(int cores) : callers_awake_(cores / 2) {}

  void began(int calls) { under_way_.fetch_add(calls, std::memory_order_relaxed); }
  // `running`: how long the function itself took on its worker.
  void ended(Duration running) {
    under_way_.fetch_sub(1, std::memory_order_relaxed);
    const std::int64_t latest = recent_.load(std::memory_order_relaxed);
    recent_.store(latest + (running.count() - latest) / 8, std::memory_order_relaxed);
  }
  // Whether a caller spins for its answer.
  bool should_spin() {
    if (!is_quick()) return false;
    const std::uint32_t callers = unanswered_.fetch_add(1, std::memory_order_relaxed);
    return callers < kMostUnanswered || callers % kMostUnanswered == 0;
  }
  // A caller begins to spin on this core. An engine that wakes there preempts the caller, and would
  // keep it from reading its answer. With several callers, only the last one is known.
  void spins_on(int core) { core_.store(core, std::memory_order_relaxed); }
  bool is_callers_core(int core) const { return core_.load(std::memory_order_relaxed) == core; }
  // A caller got its answer while it spun.
  void answered() { unanswered_.store(0, std::memory_order_relaxed); }
  bool is_quick() const {
    return callers_awake_ > 0 && under_way_.load(std::memory_order_relaxed) <= callers_awake_ &&
           recent_.load(std::memory_order_relaxed) < Duration(kQuick).count();
  }

 private:
  static constexpr std::uint32_t kMostUnanswered = 64;

  const int callers_awake_;
  std::atomic<int> under_way_{0};
  std::atomic<std::int64_t> recent_{0};       // an exponential moving average, in nanoseconds
  std::atomic<int> core_{-1};                 // on which a caller began to spin last
  std::atomic<std::uint32_t> unanswered_{0};  // callers since one got its answer while it spun
};

}  // namespace skyward
