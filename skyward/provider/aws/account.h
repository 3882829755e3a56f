#pragma once

// Which Amazon account a pool is in, and how to reach it again.

#include <map>
#include <string>

#include "skyward/provider/aws/client.h"

namespace skyward::provider::aws {

struct CallerIdentity {
  std::string arn{};
  std::string owner{};    // the mark on the resources it creates
  std::string account{};  // the account's number

  bool operator==(const CallerIdentity&) const = default;
};

// Asks Amazon whose credentials these are, which needs no permission. From then on the client
// accepts only credentials of that account.
Result<CallerIdentity> find_caller(Client& client, Time deadline);

// The id of no machine. How Amazon answers requests for it tells what the credentials may do.
inline constexpr const char* kNoMachine = "i-00000000000000000";

// RentedSite::way_back().
std::map<std::string, std::string> way_back(const Client& client, const CallerIdentity& caller);

}  // namespace skyward::provider::aws
