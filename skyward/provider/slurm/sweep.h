#pragma once

// Finds and cancels the jobs that pools left behind at Slurm (provider/sweep.h): at the cluster of
// the settings, and at those of open pools in the ledger.

#include "skyward/provider/sweep.h"

namespace skyward::provider::slurm {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider::slurm
