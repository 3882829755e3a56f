#pragma once

// Virtual time and its queue of events. Only step() makes anything happen: it moves the clock to
// the next event and runs it. Events of the same time run in the order in which they were
// scheduled, so a run depends only on its seed.

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

// Simulated shared memory: how many have it mapped, and whether it may be recycled.
struct Segment {
  int mapped = 0;         // by running tasks
  bool retained = false;  // never recycle it, by order of the engine
};

class Simulator {
 public:
  using Event = std::move_only_function<void()>;
  // Identifies a scheduled event.
  using Timer = std::pair<Time, std::uint64_t>;
  static constexpr Timer kNoTimer{kNever, 0};

  Simulator(std::uint64_t seed, bool verbose)
      : random(seed),
        returns(seed ^ 0xa24baed4963ee407U),
        crowds(seed ^ 0x9fb21c651e98df25U),
        groups(seed ^ 0xd6e8feb86659fd93U),
        jobs(seed ^ 0xc2b2ae3d27d4eb4fU),
        starts(seed ^ 0x8ebc6af09c88c6e3U),
        defects(seed ^ 0xe7037ed1a0b428dbU),
        together(seed ^ 0x589965cc75374cc3U),
        memory(seed ^ 0x94d049bb133111ebU),
        volumes(seed ^ 0xbf58476d1ce4e5b9U),
        verbose_(verbose) {}
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  Time now() const { return now_; }
  Timer at(Time time, Event event);
  Timer after(Duration delay, Event event) { return at(now_ + delay, std::move(event)); }
  // Does nothing if the event has happened. Sets `timer` to kNoTimer.
  void cancel(Timer& timer);
  // Runs the next event; false when there is none.
  bool step();

  // Makes a segment; the number plays the role of a descriptor.
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
  // Separate generators, so that the other faults of a seed do not depend on them.
  Random returns;   // for what comes back
  Random crowds;    // for wide nodes, tiny tasks and stalled agents
  Random groups;    // for groups of calls
  Random jobs;      // for launches that are jobs
  Random starts;    // for processes that greet and end
  Random defects;   // for machines where all of them do
  Random together;  // for broadcasts whose tasks need each other
  Random memory;    // for what the program cannot store
  Random volumes;   // for pools whose agents let volumes go

 private:
  // Not zero, which cores read as "never".
  static constexpr Time kBegin = Time{} + std::chrono::hours(1);

  bool verbose_;
  Time now_ = kBegin;
  std::uint64_t next_ = 1;
  std::uint64_t steps_now_ = 0;  // events at the present time
  std::map<Timer, Event> events_;
  std::vector<std::shared_ptr<Segment>> segments_;
};

}  // namespace skyward::sim
