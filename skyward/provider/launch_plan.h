#pragma once

// Where to ask for machines next, and of which market: the four ways to use spot machines, as one
// machine of states. Pure: it is told how each attempt went.
//
// All machines of a pool stand in one zone, and an attempt is for all that are wanted, or for the
// spot part of them; what the cloud refuses for want of capacity is asked for in the next zone,
// then of the next type. When every place has refused, the round begins again after the interval,
// as often as the pool's Spot says.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/spec/spot.h"

namespace skyward::provider {

// A type in a zone. Prices in dollars an hour; empty: not known, or not sold so.
struct LaunchTarget {
  std::string type{};
  std::string zone{};
  std::string subnet{};
  std::optional<double> spot_price{};
  std::optional<double> on_demand_price{};
  bool spot = true;       // sold as spot machines at all
  bool on_demand = true;  // ... on demand, for what the pool may cost
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
// The machines of the attempts so far are not enough by themselves: release them.
struct Release {};
enum class LaunchOutcome : std::uint8_t {
  complete,
  no_capacity,
  spot_minimum_not_met,  // the least share of spot machines was not available
};
using Step = std::variant<Attempt, Wait, Release, LaunchOutcome>;

class LaunchPlan {
 public:
  // `places` in the order in which they are tried.
  LaunchPlan(const Spot& spot, int count, const std::vector<LaunchTarget>& places);

  // What to do next. After an Attempt, say how it went before asking again.
  Step next();
  void on_launched();
  // How it ends if nothing more is asked for: what is missing.
  LaunchOutcome shortfall() const {
    return minimum_ ? LaunchOutcome::spot_minimum_not_met : LaunchOutcome::no_capacity;
  }
  // No capacity there. `quota`: nor anywhere else in this market.
  void on_refused(bool quota);

 private:
  struct Option {
    std::size_t placement = 0;
    bool spot = false;
  };
  // One way to fulfil the wish: `count` machines of one option, and `rest` on-demand machines in
  // the same zone.
  struct Stage {
    std::vector<Option> options;
    int count = 0;
    int rest = 0;
    int rounds = 1;
  };

  std::vector<Option> options_of(bool spot) const;
  bool fills_up(std::size_t placement) const;
  void next_option();

  const std::vector<LaunchTarget> places_;
  const Duration interval_;
  std::vector<Stage> stages_;
  bool minimum_ = false;  // failing means that the share was not met
  std::size_t stage_ = 0;
  std::size_t option_ = 0;
  int round_ = 0;
  bool waiting_ = false;
  bool launched_ = false;  // the stage's main part stands
  bool release_ = false;
  bool complete_ = false;
  std::size_t rest_at_ = 0;  // of places_, while the rest is sought
};

}  // namespace skyward::provider
