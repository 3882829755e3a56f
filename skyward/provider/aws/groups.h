#pragma once

// A pool's security group: created for the pool and removed with it. It has the pool's name, so
// that it is found again if the reply to its creation was lost.

#include <string>
#include <vector>

#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/pool_book.h"

namespace skyward::provider::aws {

// Creates a group without rules and returns its id. It is in the ledger before it is requested.
Result<std::string> make_group(Client& client, PoolBook& book, const std::string& vpc,
                               const Tags& tags, Time deadline);

// For a while, some requests do not know a new group. await_group() returns true, after a pause, if
// that is why a request was refused and a retry before `until` can help.
Time group_known_by(const World& world, Time deadline);
bool await_group(const World& world, const ApiError& error, Time until);

// Removes the pool's groups and marks them as gone in the book. Returns those that cannot be
// removed yet: terminating machines keep their group for minutes. They cost nothing, and stay in
// the book.
Result<std::vector<std::string>> remove_groups(Client& client, PoolBook& book, Time deadline);
// Removes groups that earlier pools left in the region, as far as possible: those of this computer,
// and those of the caller's other computers whose pool's time is over.
void remove_left_groups(Client& client, Ledger& ledger, const CallerIdentity& caller,
                        Time deadline);

}  // namespace skyward::provider::aws
