#include "skyward/provider/kubernetes/sweep.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "skyward/provider/kubernetes/kubernetes_account.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::kubernetes {

namespace {

// Of the ledger, by id.
std::map<std::string, LedgerPool> open_pools_here(const World& world) {
  std::map<std::string, LedgerPool> out;
  const auto ledger = read_ledger(world);
  if (!ledger) return out;
  const auto pools = (*ledger)->pools(true);
  if (!pools) return out;
  for (const LedgerPool& pool : *pools) {
    if (pool.provider == kProvider) out.emplace(pool.id, pool);
  }
  return out;
}

bool has_pool_in(const std::map<std::string, LedgerPool>& pools, const SweepAccount& account) {
  return std::ranges::any_of(
      pools, [&](const auto& one) { return one.second.setting("account") == account.account; });
}

}  // namespace

// A pool of another cluster or namespace is reported by the sweep of that one alone. The current
// context may lead to a cluster that is off, and that no pool of this computer is in.
Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  const Access here = access_of(world, with_readable_settings(world, kProvider));
  const auto pools = open_pools_here(world);
  std::vector<Access> places;
  for (const auto& [id, pool] : pools) places.push_back(access_of(pool));
  if (is_reachable(world, here)) places.push_back(here);
  std::set<std::string> swept;  // accounts: several ways may lead to one
  Status first;
  for (const Access& place : places) {
    KubernetesAccount account(world, place);
    const auto signed_in = account.sign_in(deadline);
    Status status = signed_in ? Status() : fail(signed_in);
    if (signed_in && swept.insert(signed_in->account).second) {
      const auto tell_ours = [&](const Swept& one) {
        const auto pool = pools.find(one.resource.id);
        const bool is_elsewhere =
            pool != pools.end() && pool->second.setting("account") != signed_in->account;
        if (one.action != SweepAction::skipped || !is_elsewhere) tell(one);
      };
      status = sweep_named(world, account, options, tell_ours, deadline);
    }
    const bool is_off = !status && status.error().kind == ErrorKind::unavailable;
    if (is_off && &place == &places.back() && signed_in && !has_pool_in(pools, *signed_in)) {
      tell({{.kind = "region", .id = signed_in->home_region, .region = signed_in->home_region},
            SweepAction::skipped,
            "this computer has nothing there: " + status.error().message});
    } else if (!status && first) {
      first = status;
    }
  }
  return first;
}

}  // namespace skyward::provider::kubernetes
