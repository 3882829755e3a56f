#pragma once

// Spot machines are cheaper and can be preempted. How far a pool relies on them.

#include <cstdint>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/base/time.h"

namespace skyward {

enum class SpotKind : std::uint8_t {
  always,        // spot machines or none
  if_available,  // spot machines, else others
  never,
  percent,   // at least this share of them
  cheapest,  // whatever costs least
};

struct Spot {
  SpotKind kind = SpotKind::always;
  double percentage = 1;  // of SpotKind::percent, 0 … 1
  int retries = 10;       // tries to get spot machines, before other ones or an error
  Duration interval = std::chrono::seconds(1);  // between two tries

  // The documented names, in both faces. NOLINTBEGIN(readability-identifier-naming)
  static Spot Always(int retries = 10, Duration interval = std::chrono::seconds(1)) {
    return {SpotKind::always, 1, retries, interval};
  }
  static Spot IfAvailable(int retries = 10, Duration interval = std::chrono::seconds(1)) {
    return {SpotKind::if_available, 1, retries, interval};
  }
  static Spot Never() { return {SpotKind::never, 0}; }
  static Spot Percent(double percentage) { return {SpotKind::percent, percentage}; }
  static Spot Cheapest() { return {SpotKind::cheapest, 0}; }
  // NOLINTEND(readability-identifier-naming)

  // Whether a spot machine will do.
  bool allows_spot() const { return kind != SpotKind::never; }
  bool operator==(const Spot&) const = default;
};

Status validate(const Spot& spot);

// Accepts "always", "if-available", "never" and "cheapest", the other names "always-spot", "spot",
// "spot-if-available" and "on-demand", and a minimum share: "0.8".
Result<Spot> parse_spot(std::string_view text);

// How many of `nodes` machines must be spot ones: all of them for always, the share rounded up for
// percent, else none.
int least_spot_count(const Spot& spot, int nodes);

}  // namespace skyward
