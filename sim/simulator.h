#pragma once

// Virtual time: what is going to happen, in order. Nothing happens but by step(), which moves the
// clock to the next event and runs it. Events of one moment run in the order in which they were
// made, so a run depends on its seed alone.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/random.h"
#include "skyward/base/time.h"
#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::sim {

// Shared memory that is none: who has it mapped, and whether it may ever be written again.
struct Segment {
  int mapped = 0;         // by tasks that run
  bool retained = false;  // the engine said: never recycle it
};

class Simulator {
 public:
  using Event = std::move_only_function<void()>;
  // Names an event that has not happened yet.
  using Timer = std::pair<Time, std::uint64_t>;
  static constexpr Timer kNoTimer{kNever, 0};

  Simulator(std::uint64_t seed, bool verbose)
      : random(seed),
        returns(seed ^ 0xa24baed4963ee407U),
        crowds(seed ^ 0x9fb21c651e98df25U),
        verbose_(verbose) {}
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  Time now() const { return now_; }
  Timer at(Time time, Event event);
  Timer after(Duration delay, Event event) { return at(now_ + delay, std::move(event)); }
  // No-op when it has happened. Sets `timer` to kNoTimer.
  void cancel(Timer& timer);
  // Runs the next event; false when there is none.
  bool step();

  // Makes a segment; the number stands for a descriptor.
  int make_segment();
  Segment& segment(int descriptor) { return *segments_.at(static_cast<std::size_t>(descriptor)); }
  std::shared_ptr<const void> storage(int descriptor) const {
    return segments_.at(static_cast<std::size_t>(descriptor));
  }

  template <typename... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) const {
    if (!verbose_) return;
    fmt::print(stderr, "{:12.6f} {}\n", seconds(now_ - kBegin),
               fmt::format(text, std::forward<Args>(args)...));
  }

  Random random;
  // A seed's other weather does not depend on these.
  Random returns;  // of what comes back
  Random crowds;   // of wide nodes, tiny tasks and agents that are held up

 private:
  // Not zero: cores take that for "never was".
  static constexpr Time kBegin = Time{} + std::chrono::hours(1);

  bool verbose_;
  Time now_ = kBegin;
  std::uint64_t next_ = 1;
  std::uint64_t steps_now_ = 0;  // events of this very moment
  std::map<Timer, Event> events_;
  std::vector<std::shared_ptr<Segment>> segments_;
};

}  // namespace skyward::sim
