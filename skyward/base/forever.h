#pragma once

// Waits without an end of their own, in the one spelling that they have.

#include <chrono>
#include <type_traits>

#include "skyward/base/time.h"

namespace skyward {

inline constexpr Duration kForever = Duration::max();

// Now and this is still a time that the clock counts to.
inline constexpr Duration kLongestWait = std::chrono::years(100);

// For interfaces where 0 means no limit.
constexpr Duration zero_if_forever(Duration limit) {
  return limit < kLongestWait ? limit : Duration{};
}

// A limit as a parameter: a duration of any unit. Where std::chrono would overflow in silence, what
// is too long to be counted is for ever. What is not a number is before all time
// (Duration::min()), which no check for a positive limit lets pass.
class TimeLimit {
 public:
  template <typename Rep, typename Period>
  constexpr TimeLimit(std::chrono::duration<Rep, Period> limit) : value_(saturated(limit)) {}
  constexpr operator Duration() const { return value_; }

 private:
  template <typename Rep, typename Period>
  static constexpr Duration saturated(std::chrono::duration<Rep, Period> limit) {
    if constexpr (std::is_same_v<decltype(limit), Duration>) {
      return limit;
    } else {
      const auto wanted = std::chrono::duration_cast<std::chrono::duration<double>>(limit);
      if (wanted != wanted) return Duration::min();
      if (wanted >= std::chrono::duration<double>(kForever)) return kForever;
      if (wanted <= std::chrono::duration<double>(Duration::min())) return Duration::min();
      return std::chrono::duration_cast<Duration>(limit);
    }
  }

  Duration value_;
};

// A limit in seconds, as people give it.
constexpr Duration limit_from_seconds(double value) {
  return TimeLimit(std::chrono::duration<double>(value));
}

}  // namespace skyward
