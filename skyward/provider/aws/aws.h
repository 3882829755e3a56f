#pragma once

// Machines of Amazon's EC2 (renting/renting.h). Beside machines, a pool has a group there that lets
// nobody in but this computer.

#include <memory>

#include "skyward/provider/provider.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Settings: those of spec/provider_settings.cc.
Result<std::unique_ptr<Provider>> make_aws(const ProviderSpec& spec, World world);
Result<std::unique_ptr<Provider>> make_aws(const ProviderSpec& spec);

}  // namespace skyward::provider
