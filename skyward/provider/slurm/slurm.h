#pragma once

// Machines of a Slurm cluster: a pool's nodes are those of its jobs
// (docs/decisions/0021-a-launch-at-slurm-is-one-job.md).

#include <memory>

#include "skyward/provider/provider.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

Result<std::unique_ptr<Provider>> make_slurm(const ProviderSpec& spec, World world);

}  // namespace skyward::provider
