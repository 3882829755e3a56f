#pragma once

// How this computer comes to an account at Verda: the client id and its secret, and where they come
// from.

#include <memory>
#include <span>
#include <string>

#include "skyward/provider/rest/oauth2.h"
#include "skyward/provider/secrets.h"
#include "skyward/provider/verda/verda_api.h"
#include "skyward/provider/world.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::verda {

// From the settings, $VERDA_CLIENT_ID and $VERDA_CLIENT_SECRET, or the file of Verda's own program.
// Fails with `denied` when there is none, and with `invalid` when $VERDA_BASE_URL, or the address
// in that file, may not get them. The world outlives the result.
Result<RestAccess> find_access(const World& world, const ProviderSpec& spec);

// What it looks for.
std::span<const SecretSheet> secrets();

}  // namespace skyward::provider::verda
