#pragma once

// The machines of one launch, all or none: carries a LaunchPlan out at one cloud, and when it comes
// to nothing says in one error what stood in the way.

#include <algorithm>
#include <expected>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/launch_plan.h"
#include "skyward/provider/world.h"
#include "skyward/spec/shortage.h"

namespace skyward::provider {

// Why an attempt brought nothing: the cloud refused it, or what came was given back.
struct LaunchFailure {
  Error error{};
  bool capacity = false;  // another place may have the machines
  bool quota = false;     // no place of this market has
};

// Why nothing is bought any more.
Error no_longer_wanted();

struct LaunchWish {
  int count = 1;
  Spot spot{};
  std::vector<Placement> places{};  // in the order in which they are tried
};

// What stood in the way of a launch.
class LaunchRecord {
 public:
  // `cloud` and `region` as messages name them; no region: "".
  LaunchRecord(std::string_view cloud, std::string_view region) : cloud_(cloud), region_(region) {}

  // The cloud said no, in a word of its own ("InsufficientInstanceCapacity"). Returns `why`, whose
  // hint says of a quota what to do about it.
  LaunchFailure refused(const Placement& place, bool spot, std::string_view code,
                        LaunchFailure why);
  // Machines came, or may have come, and were of no use.
  void withdrawn(std::string why);
  void standing(std::size_t machines);
  // More than the last thing that went wrong.
  bool several() const { return refusals_.size() > 1; }

  // The error of kind `exhausted`, with a Shortage.
  Error no_machines(Outcome outcome, const LaunchWish& wish) const;

 private:
  Shortage shortage(Outcome outcome, const LaunchWish& wish) const;

  const std::string cloud_;
  const std::string region_;
  std::vector<std::string> refusals_{};  // in words
  std::string quota_hint_{};
  bool only_quotas_ = true;  // nothing else was in the way
  int most_standing_ = 0;    // machines at the same time
};

// What a cloud does for a launch. Both leave nothing behind that its ledger does not have as open.
template <typename Machine>
struct LaunchHands {
  // All machines of the attempt, running. What failed is in the record already.
  std::function<std::expected<std::vector<Machine>, LaunchFailure>(const Attempt&)> attempt;
  std::function<Status(const std::vector<Machine>&)> give_back;
};

// As many machines as are wished for, or none and why. Waits between rounds by the world's clock.
template <typename Machine>
Result<std::vector<Machine>> launch_all(const World& world, const LaunchWish& wish,
                                        LaunchRecord& record, const LaunchHands<Machine>& hands,
                                        Time deadline) {
  LaunchPlan plan(wish.spot, wish.count, wish.places);
  std::vector<Machine> machines;
  const auto give_up = [&](Error why) -> Result<std::vector<Machine>> {
    if (Status ended = hands.give_back(machines); !ended) {
      why.message += "; " + ended.error().message;
    }
    return std::unexpected(std::move(why));
  };
  while (true) {
    const Step step = plan.next();
    if (const auto* outcome = std::get_if<Outcome>(&step)) {
      if (*outcome == Outcome::complete) return machines;
      return give_up(record.no_machines(*outcome, wish));
    }
    if (world.buying.stop_requested()) return give_up(no_longer_wanted());
    if (const auto* wait = std::get_if<Wait>(&step)) {
      if (deadline - world.now() <= wait->duration) {
        return give_up(record.no_machines(plan.shortfall(), wish));
      }
      world.pause(wait->duration, world.buying.get_token());
    } else if (std::holds_alternative<GiveBack>(step)) {
      if (Status ended = hands.give_back(machines); !ended) return fail(ended);
      machines.clear();
    } else {
      auto made = hands.attempt(std::get<Attempt>(step));
      if (made) {
        std::ranges::move(*made, std::back_inserter(machines));
        record.standing(machines.size());
        plan.on_launched();
      } else if (made.error().capacity) {
        plan.on_refused(made.error().quota);
      } else if (made.error().error.kind == ErrorKind::timeout && record.several()) {
        return give_up(record.no_machines(plan.shortfall(), wish));
      } else {
        return give_up(std::move(made.error().error));
      }
    }
  }
}

}  // namespace skyward::provider
