#pragma once

// Details of a capacity error, as fields besides the text: what the face's errors of that kind
// tell a program. Travels inside an Error.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward {

enum class ShortageKind : std::uint8_t {
  capacity,       // too few machines in the markets that the pool allows
  spot_capacity,  // too few spot machines, and the pool allows no others
  spot_minimum,   // fewer spot machines than the pool's minimum share
  quota,          // the account's quota does not allow so many
  region,         // no region sells the type
  no_match,       // no type has what is asked for
};
std::string_view to_string(ShortageKind kind);

struct Shortage {
  ShortageKind kind = ShortageKind::capacity;
  int requested = 0;     // machines; of spot_minimum: spot machines at least
  int got = 0;           // the most that ran at the same time, before they were released
  std::string region{};  // the first that was asked
  std::vector<std::string> regions{};  // all that were
  std::string instance_type{};
  std::vector<std::string> offers{};  // what was near: "m5.large in us-east-1, $0.0960 on demand"

  bool operator==(const Shortage&) const = default;
};

// The error with these facts; those it had are replaced.
Error with_shortage(Error error, const Shortage& shortage);
// Empty for an error about something else.
std::optional<Shortage> shortage_of(const Error& error);

}  // namespace skyward
