#include "skyward/provider/digital_ocean/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "skyward/provider/digital_ocean/access.h"

namespace skyward::provider::digital_ocean {

namespace {

template <typename T>
Finding judge_reading(const char* scope, const ApiResult<T>& answer) {
  if (answer) return {.what = scope, .good = true, .detail = "allowed"};
  return {.what = scope, .detail = answer.error().message, .hint = answer.error().hint};
}

// What pools read, in the words of a token's scopes.
void look_into_reading(Api& api, const std::function<void(const Finding&)>& tell, Time deadline) {
  tell(judge_reading("droplet:read", api.droplets(false, deadline)));
  tell(judge_reading("droplet:read (with GPUs)", api.droplets(true, deadline)));
  tell(judge_reading("ssh_key:read", api.ssh_keys(deadline)));
  tell(judge_reading("tag:read", api.tags(deadline)));
  tell(judge_reading("firewall:read", api.firewalls(deadline)));
}

Finding judge_region(const std::string& region, const ApiResult<std::vector<Size>>& sizes) {
  if (!sizes) return judge_reading("sizes:read", sizes);
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
  tell({.what = "region",
        .good = true,
        .detail = fmt::format("{} ({})", region.value, region.origin)});
  const auto access = find_access(world, {.name = "digital_ocean"});
  if (!access) {
    tell({.what = "token", .detail = access.error().message, .hint = access.error().hint});
    return {};
  }
  tell({.what = "token", .good = true, .detail = access->origin});
  RestClient client(world, access->account);
  Api api(client);
  const auto user = find_user(api, deadline);
  tell({.what = "account",
        .good = user.has_value(),
        .detail = user ? user->email : user.error().message,
        .hint = user ? "" : user.error().hint});
  if (!user) return {};
  if (const std::int64_t ahead_s = api.clock_ahead_s(); ahead_s != 0) {
    tell({.what = "clock",
          .detail = fmt::format("this computer's is {} min {}", std::abs(ahead_s) / 60,
                                ahead_s > 0 ? "slow" : "fast"),
          .hint = "set it: 'skyward gc' judges by it whose time is over"});
  }
  look_into_reading(api, tell, deadline);
  tell(judge_region(region.value, api.sizes(deadline)));
  return {};
}

}  // namespace skyward::provider::digital_ocean
