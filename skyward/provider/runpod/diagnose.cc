#include "skyward/provider/runpod/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "skyward/provider/renting/findings.h"
#include "skyward/provider/runpod/pod_offers.h"
#include "skyward/provider/runpod/runpod_account.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::runpod {

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
  RunPodAccount account(world, *access);
  Api& api = account.api();
  const auto user = api.user(deadline);
  const bool is_known = user && *user;
  tell(finding_of("account", user, is_known ? (*user)->email : "RunPod no longer tells"));
  if (!user) return {};
  if (const auto clock = clock_finding(api.clock_ahead_s())) tell(*clock);
  if (is_known) {
    const double balance = (*user)->balance;
    tell({.what = "balance",
          .good = balance > 0,
          .detail = fmt::format("${:.2f}", balance),
          .hint = balance > 0 ? "" : "add credit at console.runpod.io, Billing"});
  }
  tell(finding_of("pods", api.pods(deadline)));
  const PodLimits limits = limits_of(*spec);
  const auto kinds = api.gpus(limits.tier, 1, limits.least_cuda, deadline);
  const auto count = kinds ? std::ranges::count_if(*kinds, &GpuKind::available) : 0;
  Finding machines = finding_of("machines", kinds, fmt::format("{} kinds of GPUs on sale", count));
  machines.good = machines.good && count > 0;
  tell(machines);
  return {};
}

}  // namespace skyward::provider::runpod
