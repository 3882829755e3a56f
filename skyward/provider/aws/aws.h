#pragma once

// Machines from Amazon EC2 (renting/renting.h). Besides machines, a pool has a security group that
// admits only this computer.

#include <memory>

#include "skyward/provider/provider.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Settings: those of spec/provider_settings.cc.
Result<std::unique_ptr<Provider>> make_aws(const ProviderSpec& spec, World world);

}  // namespace skyward::provider
