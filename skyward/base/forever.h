#pragma once

// Waits without an end of their own, in the one spelling that they have.

#include "skyward/base/time.h"

namespace skyward {

inline constexpr Duration kForever = Duration::max();

// A limit in seconds, as people give it: more than can be counted is for ever.
constexpr Duration limit_from_seconds(double value) {
  return value < seconds(kForever) ? from_seconds(value) : kForever;
}

}  // namespace skyward
