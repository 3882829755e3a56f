#pragma once

// Machines of Verda, on demand and as spot machines, reached by ssh as root. One that is shut down
// costs as before: it has to be deleted, and its disk with it.

#include <memory>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Fails with `denied` when there is no client id or secret.
Result<std::unique_ptr<RentedCloud>> make_verda_cloud(const ProviderSpec& spec, World world);

}  // namespace skyward::provider
