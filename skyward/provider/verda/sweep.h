#pragma once

// Finds and removes what pools have left behind at Verda (provider/sweep.h).

#include "skyward/provider/sweep.h"

namespace skyward::provider::verda {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider::verda
