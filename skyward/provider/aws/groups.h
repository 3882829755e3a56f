#pragma once

// The security group of a pool: made for it alone, removed with it. Its name is the pool's, so that
// a request whose reply was lost finds what it made.

#include <string>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/pool_book.h"

namespace skyward::provider::aws {

// The id of a group without rules. In the ledger before it is asked for.
Result<std::string> make_group(Client& client, PoolBook& book, const std::string& vpc,
                               const Tags& tags, Time deadline);

// A group that was made a moment ago is unknown to some requests for a while. True, after a pause,
// when a refusal says so and it is worth asking again.
Time group_known_by(const World& world, Time deadline);
bool await_group(const World& world, const ApiError& error, Time until);

// Removes the pool's groups and strikes them off the book. Gives those that stay there: machines
// keep their group while they end, which takes minutes. They cost nothing, and stay in the book.
Result<std::vector<std::string>> remove_groups(Client& client, PoolBook& book, Time deadline);
// Those that earlier pools of this computer have left so in the region; whatever fails stays.
void remove_left_groups(Client& client, Ledger& ledger, const std::string& account, Time deadline);

}  // namespace skyward::provider::aws
