#pragma once

// Finds and removes what pools left behind at RunPod (provider/sweep.h).

#include "skyward/provider/sweep.h"

namespace skyward::provider::runpod {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider::runpod
