#pragma once

// Machines of Vast.ai, a market on which other people rent out theirs (renting/renting.h). They are
// containers, reached by ssh as root at a port of their host. Without trust="community", only
// machines in audited data centres are taken.

#include <memory>
#include <string>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/vast/vast_api.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// Fails with `denied` if there is no key.
Result<std::unique_ptr<RentedCloud>> make_vast_cloud(const ProviderSpec& spec, World world);

namespace vast {

// What the settings ask for, on demand.
AskFilter filter_of(const ProviderSpec& spec);

}  // namespace vast

}  // namespace skyward::provider
