#include "skyward/provider/digital_ocean/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "skyward/provider/digital_ocean/access.h"
#include "skyward/provider/digital_ocean/droplets.h"
#include "skyward/provider/renting/findings.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::digital_ocean {

namespace {

// What pools ask for, in the words of a token's scopes.
void look_into_scopes(Api& api, const std::function<void(const Finding&)>& tell, Time deadline) {
  tell(finding_of("droplet:read", api.droplets(false, deadline)));
  tell(finding_of("droplet:read (with GPUs)", api.droplets(true, deadline)));
  tell(finding_of("droplet:delete", may_delete(api, deadline)));
  tell(finding_of("actions:read", may_read_actions(api, deadline)));
  tell(finding_of("ssh_key:read", api.ssh_keys(deadline)));
  tell(finding_of("tag:read", api.tags(deadline)));
  tell(finding_of("firewall:read", api.firewalls(deadline)));
}

Finding judge_region(const std::string& region, const ApiResult<std::vector<Size>>& sizes) {
  if (!sizes) return finding_of("sizes:read", sizes);
  const auto sold = std::ranges::count_if(*sizes, [&](const Size& size) {
    return std::ranges::find(size.regions, region) != size.regions.end();
  });
  return {.what = "machines",
          .good = sold > 0,
          .detail = fmt::format("{} types in {}", sold, region),
          .hint = sold > 0 ? "" : "choose another region; a pool that needs GPUs finds one itself"};
}

}  // namespace

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline) {
  tell(finding_of(region));
  const auto spec = with_settings(world, {.name = kProvider, .settings = {}});
  if (!spec) return fail(spec);
  const auto access = find_access(world, *spec);
  if (!access) {
    tell(finding_of("token", access.error()));
    return {};
  }
  tell({.what = "token", .good = true, .detail = access->origin});
  RestClient client(world, access->account);
  Api api(client);
  const auto user = find_user(api, deadline);
  if (!user) {
    tell(finding_of("account", user.error()));
    return {};
  }
  tell({.what = "account", .good = true, .detail = user->email});
  if (const auto clock = clock_finding(api.clock_ahead_s())) tell(*clock);
  look_into_scopes(api, tell, deadline);
  tell(judge_region(region.value, api.sizes(deadline)));
  return {};
}

std::vector<SettingOrigin> settings_here(const World& world) {
  constexpr const char* kKeyVariable = "DIGITALOCEAN_SSH_KEY_FINGERPRINT";
  const auto key = world.variable(kKeyVariable);
  if (!key) return {};
  return {{"ssh_key_fingerprint", *key, fmt::format("${}", kKeyVariable)}};
}

}  // namespace skyward::provider::digital_ocean
