#pragma once

// Decides where to request machines next, and in which market: one state machine for all spot
// policies. Pure: the caller reports how each attempt went.
//
// All machines of a pool are in one zone, and an attempt is for all of them, or for the spot share.
// When a zone has no capacity, the next zone is tried, then the next type. When every place has
// refused, another round begins after the interval, as often as the pool's Spot allows.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/spec/spot.h"

namespace skyward::provider {

// A type in a zone. Prices in dollars an hour; empty: unknown, or not sold that way.
struct LaunchTarget {
  std::string type{};
  std::string zone{};
  std::string subnet{};
  std::optional<double> spot_price{};
  std::optional<double> on_demand_price{};
  bool spot = true;       // sold as spot machines
  bool on_demand = true;  // ... on demand, within the pool's price limits
};

struct Attempt {
  std::size_t placement = 0;
  int count = 0;
  bool spot = false;

  bool operator==(const Attempt&) const = default;
};
struct Wait {
  Duration duration{};
};
// The machines launched so far do not suffice: release them.
struct Release {};
enum class LaunchOutcome : std::uint8_t {
  complete,
  no_capacity,
  spot_minimum_not_met,  // the minimum share of spot machines was not available
};
using Step = std::variant<Attempt, Wait, Release, LaunchOutcome>;

// What a refusal rules out: the place, for this round or for so many machines in all rounds; all
// places of its type in this market; or this market.
enum class RefusedPart : std::uint8_t { place, count, type, market };

// The pool's policy for `count` more machines, where `standing` of its `nodes` machines stand, and
// `spot` of these are spot machines. Those that the new ones replace may stand among them; for the
// worst, they are spot machines.
Spot policy_beside(const Spot& policy, int nodes, int standing, int spot, int count);

class LaunchPlan {
 public:
  // `places` in the order in which they are tried.
  LaunchPlan(const Spot& spot, int count, const std::vector<LaunchTarget>& places);

  // The next step. After an Attempt, report how it went before calling this again.
  Step next();
  void on_launched();
  // The outcome if the launch stops here.
  LaunchOutcome shortfall() const {
    return minimum_ ? LaunchOutcome::spot_minimum_not_met : LaunchOutcome::no_capacity;
  }
  void on_refused(RefusedPart part);

 private:
  struct Option {
    std::size_t placement = 0;
    bool spot = false;
  };
  // One way to launch everything: `count` machines of one option, and `rest` on-demand machines in
  // the same zone.
  struct Stage {
    std::vector<Option> options;
    int count = 0;
    int rest = 0;
    int rounds = 1;
  };

  std::vector<Option> options_of(bool spot) const;
  bool fills_up(std::size_t placement) const;
  bool drop_type(const std::string& type, bool spot);
  void end_round();

  std::vector<LaunchTarget> places_;
  const Duration interval_;
  std::vector<Stage> stages_;
  bool minimum_ = false;  // a failure means that the spot share was not met
  std::size_t stage_ = 0;
  std::size_t option_ = 0;
  int round_ = 0;
  bool waiting_ = false;
  bool launched_ = false;  // the stage's main part is launched
  bool release_ = false;
  bool complete_ = false;
  std::size_t rest_at_ = 0;  // index into places_ while the rest is launched
};

}  // namespace skyward::provider
