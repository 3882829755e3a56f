#pragma once

// A user's account at Vast.ai: the key and its source, and the address of the API.

#include <span>
#include <string>

#include "skyward/provider/secrets.h"
#include "skyward/provider/vast/vast_api.h"
#include "skyward/provider/world.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::vast {

// From the setting, $VAST_API_KEY, or the file of Vast.ai's own program. Fails with `denied` if
// there is none, and with `invalid` if $VAST_URL may not receive it.
Result<RestAccess> find_access(const World& world, const ProviderSpec& spec);

// What it looks for.
std::span<const SecretSheet> secrets();

}  // namespace skyward::provider::vast
