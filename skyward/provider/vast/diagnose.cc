#include "skyward/provider/vast/diagnose.h"

#include <fmt/format.h>

#include <string>

#include "skyward/provider/renting/findings.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/vast/vast.h"
#include "skyward/provider/vast/vast_account.h"

namespace skyward::provider::vast {

Status diagnose(const World& world, const SettingOrigin&,
                const std::function<void(const Finding&)>& tell, Time deadline) {
  const auto spec = with_settings(world, {.name = kProvider, .settings = {}});
  if (!spec) return fail(spec);
  auto access = find_access(world, *spec);
  if (!access) {
    tell(finding_of("key", access.error()));
    return {};
  }
  tell({.what = "key", .good = true, .detail = access->origin});
  VastAccount account(world, *std::move(access));
  Api& api = account.api();
  const auto user = api.user(deadline);
  tell(finding_of("account", user, user ? user->email : ""));
  if (!user) return {};
  if (const auto clock = clock_finding(api.clock_ahead_s())) tell(*clock);
  tell({.what = "credit",
        .good = user->credit > 0,
        .detail = fmt::format("${:.2f}", user->credit),
        .hint = user->credit > 0 ? "" : "add credit at cloud.vast.ai, Billing"});
  tell(finding_of("instances", api.contracts(deadline)));
  const auto asks = api.search(filter_of(*spec), deadline);
  const std::size_t count = asks ? asks->size() : 0;
  Finding machines = finding_of("machines", asks, fmt::format("{} on offer", count));
  if (asks && count == 0) {
    machines.good = false;
    machines.hint = "loosen the filters: min_reliability, min_cuda, geolocation, trust";
  }
  tell(machines);
  return {};
}

}  // namespace skyward::provider::vast
