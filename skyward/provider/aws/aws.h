#pragma once

// Machines of Amazon's EC2. What a pool needs there is made for it alone and goes with it: its
// machines, and the group that lets nobody in but this computer.
//
// Nothing is left running by an accident: each request that costs stands in the ledger before it is
// sent, and each machine ends itself when its time is over, when no agent has begun soon after its
// boot, or when its agent has not heard of the driver for the length of a lease.

#include <memory>

#include "skyward/provider/provider.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Settings: those of spec/provider_settings.cc.
Result<std::unique_ptr<Provider>> make_aws(const ProviderSpec& spec, World world);
Result<std::unique_ptr<Provider>> make_aws(const ProviderSpec& spec);

}  // namespace skyward::provider
