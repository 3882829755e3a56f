#pragma once

// What a fake cloud is asked for, and what it answers.

#include <cstdint>
#include <expected>
#include <map>
#include <string>

#include "skyward/base/time.h"
#include "skyward/spec/cost.h"

namespace skyward::provider::fake {

using Tags = std::map<std::string, std::string>;
// Every resource has these. `expires`: seconds since 1970.
inline constexpr const char* kPoolTag = "pool";
inline constexpr const char* kOwnerTag = "owner";
inline constexpr const char* kExpiresTag = "expires";
inline constexpr const char* kLaunchTag = "launch";  // of machines and their disks: client token

// Why a request was refused. Codes: Throttled, InternalError, NoReply (it may have taken effect or
// not), NoCapacity, QuotaExceeded, PriceTooLow, NotFound, InUse; and Violation.
struct Refusal {
  std::string code{};
  std::string message{};
  bool maybe_done = false;  // by this try of the request, or by one before it
};
template <typename T>
using Answer = std::expected<T, Refusal>;

struct LaunchRequest {
  std::string token{};
  std::string type{};
  std::string zone{};
  int count = 1;
  bool spot = false;
  std::string group{};
  std::string key{};
  MicroDollars most_hourly = 0;  // of a spot machine; 0: whatever it costs
  // Machines terminate themselves at this age, and earlier if no agent has started on them.
  Duration lifetime{};
  Duration unclaimed{};
  Tags tags{};

  bool operator==(const LaunchRequest&) const = default;
};

enum class MachineState : std::uint8_t { pending, running, ending, ended };

struct Machine {
  std::string id{};
  std::string type{};
  std::string zone{};
  bool spot = false;
  MachineState state = MachineState::pending;
  std::string reason{};  // why it terminates, or has terminated
  std::string private_ip{};
  MicroDollars hourly = 0;  // when it was sold
  Tags tags{};
};

// A firewall ("security_group"), a login key ("key_pair") or a disk ("volume").
struct Item {
  std::string kind{};
  std::string id{};
  std::string name{};  // our own
  Tags tags{};
};

// What happened to a machine without a request; simulation.h passes it on to the machine's process.
struct MachineEvent {
  enum class Kind : std::uint8_t { notice, power_off } kind = Kind::notice;
  std::string machine{};
  Duration left{};  // of a notice
};

}  // namespace skyward::provider::fake
