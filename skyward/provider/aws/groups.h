#pragma once

// The security group of a pool: made for it alone, removed with it. Its name is the pool's, so that
// a request whose reply was lost finds what it made.

#include <string>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/pool_book.h"

namespace skyward::provider::aws {

// The id of a group without rules. In the ledger before it is asked for.
Result<std::string> make_group(Client& client, PoolBook& book, const std::string& vpc,
                               const Tags& tags, Time deadline);

// Removes the pool's groups, waiting a while for machines that are just ending, and strikes them
// off the book. Fails with `unavailable` when a machine still uses one.
Status remove_groups(Client& client, PoolBook& book, Time deadline);

}  // namespace skyward::provider::aws
