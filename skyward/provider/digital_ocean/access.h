#pragma once

// A user's account at DigitalOcean: the token and its source, the address of the API, and whose
// token it is.

#include <map>
#include <span>
#include <string>

#include "skyward/provider/digital_ocean/digital_ocean_api.h"
#include "skyward/provider/secrets.h"
#include "skyward/provider/world.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::digital_ocean {

// The token of the setting, of $DIGITALOCEAN_TOKEN or $DIGITALOCEAN_ACCESS_TOKEN, or doctl's. Fails
// with `denied` when there is none, and with `invalid` when $DIGITALOCEAN_API_URL may not get it.
Result<RestAccess> find_access(const World& world, const ProviderSpec& spec);

// What it looks for.
std::span<const SecretSheet> secrets();

// Whose droplets these are.
struct AccountUser {
  std::string owner{};    // the mark on what the token's user makes
  std::string account{};  // the team
  std::string email{};
};
// Fails with `denied` if the account is locked.
Result<AccountUser> find_user(Api& api, Time deadline);

// Whether the token may delete droplets: it tries to delete one that cannot exist.
ApiResult<void> may_delete(Api& api, Time deadline);
// Whether it may read actions, which tell why the creation of a droplet failed.
ApiResult<void> may_read_actions(Api& api, Time deadline);

}  // namespace skyward::provider::digital_ocean
