#pragma once

// Pods of a Kubernetes cluster, by the user's own kubectl
// (docs/decisions/0022-a-machine-at-kubernetes-is-a-pod.md).

#include <memory>

#include "skyward/provider/provider.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

Result<std::unique_ptr<Provider>> make_kubernetes(const ProviderSpec& spec, World world);

}  // namespace skyward::provider
