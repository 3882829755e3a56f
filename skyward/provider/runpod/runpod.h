#pragma once

// Machines of RunPod (renting/renting.h): containers, reached by ssh as root at a port of their
// host. They are in RunPod's own data centres, or, with cloud_type="community", in the hands of
// people who rent theirs out.

#include <memory>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Fails with `denied` if there is no key.
Result<std::unique_ptr<RentedCloud>> make_runpod_cloud(const ProviderSpec& spec, World world);

}  // namespace skyward::provider
