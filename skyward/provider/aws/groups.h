#pragma once

// The security group of a pool: made for it alone, removed with it. Its name is the pool's, so that
// a request whose reply was lost finds what it made.

#include <string>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/ledger.h"

namespace skyward::provider::aws {

// The id of a group without rules. In the ledger before it is asked for.
Result<std::string> make_group(Client& client, Ledger& ledger, const std::string& pool,
                               const std::string& vpc, const Tags& tags, Time deadline);

// Removes the pool's groups, waiting a while for machines that are just ending, and strikes them
// off the ledger. Fails with `unavailable` when a machine still uses one.
Status remove_groups(Client& client, Ledger& ledger, const std::string& pool, Time deadline);

// Marks the pool as closed when nothing of it is left in the ledger. An entry that Amazon never
// answered stays open until nothing can come of it any more.
Status close_when_clear(const World& world, Ledger& ledger, const std::string& pool);

}  // namespace skyward::provider::aws
