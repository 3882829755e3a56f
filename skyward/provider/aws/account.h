#pragma once

// Whose account at Amazon a pool is in, and the way there.

#include <map>
#include <string>

#include "skyward/provider/aws/client.h"

namespace skyward::provider::aws {

struct CallerIdentity {
  std::string arn{};
  std::string owner{};    // the mark on what it makes
  std::string account{};  // its number

  bool operator==(const CallerIdentity&) const = default;
};

// Asks Amazon who the credentials belong to; that needs no permission. The client takes no others
// from then on.
Result<CallerIdentity> find_caller(Client& client, Time deadline);

// The id of no machine: what is asked of it tells what the credentials may do.
inline constexpr const char* kNoMachine = "i-00000000000000000";

// RentedSite::way_back().
std::map<std::string, std::string> way_back(const Client& client, const CallerIdentity& caller);

}  // namespace skyward::provider::aws
