#include "skyward/provider/verda/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "skyward/base/text.h"
#include "skyward/provider/renting/findings.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/verda/verda_account.h"

namespace skyward::provider::verda {

namespace {

Finding judge_balance(const ApiResult<Balance>& balance) {
  if (!balance) return finding_of("balance", balance);
  const auto& [amount, currency] = *balance;
  const bool in_dollars = currency.empty() || currency == "usd";
  return {.what = "balance",
          .good = amount > 0,
          .detail = in_dollars ? fmt::format("${:.2f}", amount)
                               : fmt::format("{:.2f} {}", amount, upper(currency)),
          .hint = amount > 0 ? "" : "add credit at console.verda.com, Billing"};
}

// What is available now; an empty region stands for all.
Finding judge_machines(const std::string& region,
                       const ApiResult<std::vector<Availability>>& there) {
  if (!there) return finding_of("machines", there);
  std::size_t types = 0;
  for (const Availability& at : *there) {
    if (region.empty() || at.location == region) types = std::max(types, at.types.size());
  }
  const std::string where = region.empty() ? "one location" : region;
  return {.what = "machines",
          .good = types > 0,
          .detail = fmt::format("{} types available in {}", types, where),
          .hint = types > 0 ? "" : "choose another region, or none: Skyward then takes any"};
}

}  // namespace

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline) {
  tell(finding_of(region));
  const auto spec = with_settings(world, {.name = kProvider, .settings = {}});
  if (!spec) return fail(spec);
  auto access = find_access(world, *spec);
  if (!access) {
    tell(finding_of("client secret", access.error()));
    return {};
  }
  tell({.what = "client secret", .good = true, .detail = access->origin});
  VerdaAccount account(world, *std::move(access));
  Api& api = account.api();
  const auto keys = api.texts("ssh-keys", deadline);
  tell(finding_of("sign in", keys));
  if (!keys) return {};
  if (const auto clock = clock_finding(api.clock_ahead_s())) tell(*clock);
  tell(judge_balance(api.balance(deadline)));
  tell(judge_machines(region.value, api.availability(false, deadline)));
  return {};
}

}  // namespace skyward::provider::verda
