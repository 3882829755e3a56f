#pragma once

// Launches machines at one cloud, all or none: carries out a LaunchPlan and, if it fails, sums up
// the reasons in one error.

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/launch_plan.h"
#include "skyward/provider/world.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/shortage.h"

namespace skyward::provider {

// In order. One that is stopped costs, and does nothing: it was powered off, or outbid.
enum class Stage : std::uint8_t { pending, running, stopped, terminating, terminated };

// A machine as its cloud describes it.
struct MachineStatus {
  Instance instance{};
  std::string zone{};
  Stage stage = Stage::pending;
  std::string reason{};       // why it terminates: the cloud's code
  std::string message{};      // ... and message
  std::string hint{};         // what to do about it, if known
  bool capacity = false;      // no capacity: another place may have some
  bool switched_off = false;  // in the cloud's own word: nothing runs on it
  // Seconds since 1970 by this computer's clock, if the cloud reports it.
  std::optional<std::int64_t> ended_s{};
};

// Why an attempt failed: the cloud refused it, or the machines that it launched were released.
struct LaunchFailure {
  Error error{};
  bool capacity = false;  // another place may have the machines
  bool quota = false;     // no place in this market has them
  bool type = false;      // no place of this type has them in this market
  bool part = false;      // the place had some, which are paid for: it is not tried again
  // The account is not allowed them; its hint is shown when none is available.
  bool account = false;
  bool unanswered = false;  // and nothing has come of it: it may be tried again
};

// Why a launch stops before it is complete.
Error no_longer_wanted();

struct LaunchSpec {
  int count = 1;
  Spot spot{};
  std::vector<LaunchTarget> places{};  // in the order of trying
};

// Collects the reasons why a launch fails.
class LaunchRecord {
 public:
  // `cloud` and `region` as messages name them; `region` may be empty.
  LaunchRecord(std::string_view cloud, std::string_view region) : cloud_(cloud), region_(region) {}

  // The cloud refused an attempt with this code ("InsufficientInstanceCapacity"). Returns `why`.
  LaunchFailure refused(const LaunchTarget& place, bool spot, std::string_view code,
                        LaunchFailure why);
  // Machines were launched, or may have been, and were released again.
  void withdrawn(std::string why);
  void note_running(std::size_t machines);
  // Whether there was more than one reason.
  bool several() const { return refusals_.size() > 1; }

  // The error of kind `exhausted`, with a Shortage; or why the account was denied every attempt.
  Error no_machines(LaunchOutcome outcome, const LaunchSpec& spec) const;

 private:
  Shortage shortage(LaunchOutcome outcome, const LaunchSpec& spec) const;

  const std::string cloud_;
  const std::string region_;
  std::vector<std::string> refusals_{};  // in words
  std::string hint_{};                   // of an account or quota
  std::string advice_{};                 // the hint that all refusals have
  bool only_quotas_ = true;              // every refusal was one
  std::optional<std::string> quota_{};   // what the cloud said of it beside the code
  std::optional<Error> denied_{};        // the first refusal, if every one was of that kind
  int most_running_ = 0;                 // machines at the same time
};

// What launch_all() needs of a cloud. Neither leaves anything behind that the ledger does not list
// as open.
struct LaunchActions {
  // Returns all machines of the attempt, running. A failure is in the record already.
  std::function<std::expected<std::vector<MachineStatus>, LaunchFailure>(const Attempt&)> attempt;
  std::function<Status(const std::vector<MachineStatus>&)> release;
  bool runs_first = false;  // as MachineApiFacts has it
};

// Launches as many machines as the spec says, or none. Waits between rounds by the world's clock.
Result<std::vector<MachineStatus>> launch_all(const World& world, const LaunchSpec& spec,
                                              LaunchRecord& record, const LaunchActions& actions,
                                              Time deadline);

}  // namespace skyward::provider
