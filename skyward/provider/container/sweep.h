#pragma once

// Finds and removes the containers that pools left behind (provider/sweep.h): at the engine to
// which the settings lead, and at those of open pools in the ledger.

#include "skyward/provider/sweep.h"

namespace skyward::provider::container {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider::container
