#pragma once

// Chance from a seed. Each matter draws from its own stream, so that what one of them draws, and
// how often, changes nothing for the others.

#include <cstdint>

namespace skyward::provider::fake {

class Draws {
 public:
  static constexpr std::uint64_t kRequests = 0, kPrices = 1, kPauses = 2;
  static constexpr std::uint64_t kFirstMachine = 1000;  // the next one has the next stream

  Draws(std::uint64_t seed, std::uint64_t stream) : state_(mixed(mixed(seed) + stream)) {}

  std::uint64_t bits() { return mixed(state_ += 0x9e3779b97f4a7c15); }
  double chance() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // from 0 to below 1

 private:
  // SplitMix64, by Steele, Lea and Flood.
  static constexpr std::uint64_t mixed(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }

  std::uint64_t state_;
};

}  // namespace skyward::provider::fake
