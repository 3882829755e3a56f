#pragma once

// Machines of DigitalOcean, called droplets, on demand and as spot machines, reached by ssh as
// root. One that is powered off costs as before: it has to be deleted.

#include <memory>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Fails with `denied` when there is no token.
Result<std::unique_ptr<RentedCloud>> make_digital_ocean_cloud(const ProviderSpec& spec,
                                                              World world);

}  // namespace skyward::provider
