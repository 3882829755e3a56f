#pragma once

// Random numbers from a seed: the same seed gives the same run with every machine and compiler,
// which the distributions of the standard library do not promise.

#include <cmath>
#include <cstdint>

#include "skyward/base/check.h"
#include "skyward/base/time.h"

namespace skyward::sim {

class Random {
 public:
  // Scrambled, since neighbouring seeds would otherwise give the same numbers, one step apart.
  explicit Random(std::uint64_t seed) : state_(seed ^ 0x5851f42d4c957f2dU) { state_ = next(); }

  // SplitMix64.
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // 0 ≤ value < count.
  std::uint64_t below(std::uint64_t count) {
    SKYWARD_CHECK(count > 0);
    return next() % count;
  }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }

  Duration between(Duration low, Duration high) {
    if (high <= low) return low;
    return low + Duration{static_cast<Duration::rep>(
                     below(static_cast<std::uint64_t>((high - low).count()) + 1))};
  }
  // The time until the next of random events, with this mean.
  Duration about(Duration mean) {
    return Duration{
        static_cast<Duration::rep>(-std::log(1.0 - unit()) * static_cast<double>(mean.count()))};
  }

 private:
  std::uint64_t state_;
};

}  // namespace skyward::sim
