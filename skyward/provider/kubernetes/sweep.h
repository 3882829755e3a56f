#pragma once

// Finds and deletes the pods that pools left behind at Kubernetes (provider/sweep.h): where the
// settings lead, and where those of open pools in the ledger do.

#include "skyward/provider/sweep.h"

namespace skyward::provider::kubernetes {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider::kubernetes
