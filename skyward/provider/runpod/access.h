#pragma once

// A user's account at RunPod: the key and its source, and the address of the API.

#include <span>
#include <string>

#include "skyward/provider/runpod/runpod_api.h"
#include "skyward/provider/secrets.h"
#include "skyward/provider/world.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::runpod {

// From the setting, $RUNPOD_API_KEY, or the file of RunPod's own program. Fails with `denied` if
// there is none, and with `invalid` if $RUNPOD_API_BASE_URL may not receive it.
Result<RestAccess> find_access(const World& world, const ProviderSpec& spec);

// What it looks for.
std::span<const SecretSheet> secrets();

}  // namespace skyward::provider::runpod
