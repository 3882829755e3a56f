#pragma once

// The machines of one launch, all or none: carries out a LaunchPlan at one cloud, and if it fails,
// sums up the reasons in one error.

#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/launch_plan.h"
#include "skyward/provider/world.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/shortage.h"

namespace skyward::provider {

enum class Stage : std::uint8_t { pending, running, terminating, terminated };

// A machine as its cloud describes it.
struct MachineStatus {
  Instance instance{};
  std::string zone{};
  Stage stage = Stage::pending;
  std::string reason{};                   // why it ends, in the cloud's word
  std::string message{};                  // ... and sentence
  std::string hint{};                     // what to do about it, where that is known
  bool capacity = false;                  // ... and another place may have one that stays
  std::optional<std::int64_t> ended_s{};  // seconds since 1970, where the cloud says so
};

// Why an attempt failed: the cloud refused it, or the machines that came were released.
struct LaunchFailure {
  Error error{};
  bool capacity = false;  // another place may have the machines
  bool quota = false;     // no place of this market has
  bool account = false;   // the account may not: its hint is shown when no machine is available
};

// Why nothing is bought any more.
Error no_longer_wanted();

struct LaunchSpec {
  int count = 1;
  Spot spot{};
  std::vector<LaunchTarget> places{};  // in the order in which they are tried
};

// What stood in the way of a launch.
class LaunchRecord {
 public:
  // `cloud` and `region` as messages name them; no region: "".
  LaunchRecord(std::string_view cloud, std::string_view region) : cloud_(cloud), region_(region) {}

  // The cloud said no, in a word of its own ("InsufficientInstanceCapacity"). Returns `why`, whose
  // hint says of a quota what to do about it.
  LaunchFailure refused(const LaunchTarget& place, bool spot, std::string_view code,
                        LaunchFailure why);
  // Machines came, or may have come, and were of no use.
  void withdrawn(std::string why);
  void note_running(std::size_t machines);
  // More than the last thing that went wrong.
  bool several() const { return refusals_.size() > 1; }

  // The error of kind `exhausted`, with a Shortage.
  Error no_machines(LaunchOutcome outcome, const LaunchSpec& spec) const;

 private:
  Shortage shortage(LaunchOutcome outcome, const LaunchSpec& spec) const;

  const std::string cloud_;
  const std::string region_;
  std::vector<std::string> refusals_{};  // in words
  std::string hint_{};                   // of the account
  bool only_quotas_ = true;              // nothing else was in the way
  int most_running_ = 0;                 // machines at the same time
};

// What a cloud does for a launch. Both leave nothing behind that its ledger does not have as open.
struct LaunchActions {
  // All machines of the attempt, running. What failed is in the record already.
  std::function<std::expected<std::vector<MachineStatus>, LaunchFailure>(const Attempt&)> attempt;
  std::function<Status(const std::vector<MachineStatus>&)> release;
};

// As many machines as are wished for, or none and why. Waits between rounds by the world's clock.
Result<std::vector<MachineStatus>> launch_all(const World& world, const LaunchSpec& spec,
                                              LaunchRecord& record, const LaunchActions& actions,
                                              Time deadline);

}  // namespace skyward::provider
