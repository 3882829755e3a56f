#pragma once

// Time as an argument. Cores never ask what time it is: they are told, in these types. The clock
// has no now() on purpose; io/event_loop.h reads the real one, sim/ makes up its own.

#include <chrono>

namespace skyward {

using Duration = std::chrono::nanoseconds;

// Nanoseconds on a clock that only moves forward. Its zero means nothing.
struct MonotonicClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicClock>;
  static constexpr bool is_steady = true;
};
using Time = MonotonicClock::time_point;

// A moment that never comes: "no deadline".
inline constexpr Time kNever = Time::max();

// Seconds as people and prices count them.
constexpr double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
// `value` must be within what a Duration holds, 292 years; limit_from_seconds() takes any.
constexpr Duration from_seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

}  // namespace skyward
