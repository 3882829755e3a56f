#pragma once

// The provider of rented machines, at any cloud. What a pool needs there is created for it alone
// and removed with it.
//
// No accident leaves a machine running: each request that costs money is in the ledger before it is
// sent, and each machine terminates itself when its lifetime is over, when no agent has started
// soon after its boot, or when its lease expires, or, where that does not end its cost, the reaper
// does (reaping.h).

#include <memory>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// `world`: the cloud's, too. stop_launching() requests a stop on its `launching`.
std::unique_ptr<Provider> make_renting(World world, std::unique_ptr<RentedCloud> cloud);

}  // namespace skyward::provider
