#pragma once

// Random numbers from a seed: one seed gives one run, with every compiler.

#include <cstdint>
#include <string>

#include "skyward/base/time.h"

namespace skyward::doubles {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed ^ 0x5851f42d4c957f2dU) { state_ = next(); }

  // SplitMix64.
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return probability > 0 && unit() < probability; }
  // Anything up to the longest.
  Duration up_to(Duration longest) { return from_seconds(seconds(longest) * unit()); }

  std::string hex(int digits) {
    std::string out;
    while (static_cast<int>(out.size()) < digits) out += "0123456789abcdef"[next() % 16];
    return out;
  }
  std::string uuid() {
    return hex(8) + "-" + hex(4) + "-4" + hex(3) + "-a" + hex(3) + "-" + hex(12);
  }

 private:
  std::uint64_t state_;
};

}  // namespace skyward::doubles
