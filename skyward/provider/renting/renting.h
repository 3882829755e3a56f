#pragma once

// Machines that are rented, at whatever cloud. What a pool needs there is made for it alone and
// goes with it.
//
// Nothing is left running by an accident: each request that costs is in the ledger before it is
// sent, and each machine ends itself when its time is over, when no agent has begun soon after its
// boot, or when its agent has not heard of the driver for the length of a lease.

#include <memory>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// `world`: the cloud's, too. Its `buying` is requested by stop_buying().
std::unique_ptr<Provider> make_renting(World world, std::unique_ptr<RentedCloud> cloud);

}  // namespace skyward::provider
