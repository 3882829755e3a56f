#pragma once

// How a gather() of quick calls goes on: how many calls make a group, how many groups are on their
// way, and how long it waits for news before it takes a call for slow. Answers of a distant node
// take their time on the way, however quick the calls are. Pure.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "skyward/base/time.h"
#include "skyward/wire/group.h"

namespace skyward {

class GatherPace {
 public:
  static constexpr std::size_t kTriedCalls = 512;  // are sent first, each by itself

  // Whether calls go in groups. Once they do not, they never do again.
  bool in_groups() const { return in_groups_; }
  void end_groups() { in_groups_ = false; }

  // Of the first answer: the time from sending its call, and the call's own run time.
  void note_first_answer(Duration taken, Duration running) {
    round_trip_ = std::max(taken - running, Duration{});
  }
  // The run time of the first calls so far, summed over all slots.
  void note_first_calls(double run_seconds, int slots) {
    if (run_seconds > seconds(kTriedTime) * slots) in_groups_ = false;
  }
  // How long to wait for the next of the first answers.
  Duration patience_at_first() const { return round_trip_ ? far(kTriedTime) : kLongestTrip; }
  // How long to wait for news of a group.
  Duration patience() const { return far(kPatience); }

  // `calls` calls ran one after the other, for `run_seconds` in all.
  void measure(double run_seconds, std::size_t calls) {
    if (run_seconds <= 0) return;  // nothing ran
    const double fitting = seconds(kGroupTime) * static_cast<double>(calls) / run_seconds;
    const double most =
        std::min<double>(wire::kMaxGroupCalls, static_cast<double>(kGrowth * size_));
    size_ = static_cast<std::size_t>(std::clamp(fitting, 1.0, most));
    slow_groups_ = fitting < 2 ? slow_groups_ + 1 : 0;
    if (slow_groups_ >= kSlowGroups) in_groups_ = false;
  }
  // Calls of the next group.
  std::size_t size() const { return size_; }
  // Groups on their way for each slot: it works while answers travel.
  int groups_ahead() const {
    const Duration trip = round_trip_.value_or(Duration{});
    return static_cast<int>(
        std::min<Duration::rep>(kGroupsPerSlot + trip / kGroupTime, kMostGroups));
  }

 private:
  static constexpr Duration kTriedTime = std::chrono::milliseconds(50);
  static constexpr Duration kPatience = std::chrono::milliseconds(10);
  static constexpr Duration kGroupTime = std::chrono::microseconds(250);  // that a group should run
  static constexpr std::size_t kGrowth = 4;  // a group is at most so much larger than the last one
  static constexpr int kGroupsPerSlot = 4;
  static constexpr int kMostGroups = 16;  // 4 ms of work for a slot
  static constexpr int kSlowGroups = 16;  // after so many, the others go alone
  static constexpr int kTrips = 2;        // round trips by which a distant call may be late
  static constexpr Duration kLongestTrip = std::chrono::milliseconds(500);

  Duration far(Duration near) const {
    return near + std::min(kTrips * round_trip_.value_or(Duration{}), kLongestTrip);
  }

  std::optional<Duration> round_trip_;  // to the node that answered first, and back
  std::size_t size_ = wire::kMaxGroupCalls;
  int slow_groups_ = 0;  // in a row of calls that take too long for groups
  bool in_groups_ = true;
};

}  // namespace skyward
