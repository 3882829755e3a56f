#pragma once

// Containers of podman or docker, on this computer or on a host that ssh reaches
// (docs/decisions/0028-containers-by-the-users-own-runtime.md)

#include <memory>

#include "skyward/provider/provider.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

Result<std::unique_ptr<Provider>> make_container(const ProviderSpec& spec, World world);

}  // namespace skyward::provider
