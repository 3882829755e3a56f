#include "skyward/provider/slurm/sweep.h"

#include <map>
#include <set>
#include <string>

#include "skyward/provider/keeping/ways.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/slurm/slurm_account.h"

namespace skyward::provider::slurm {

namespace {

// The login nodes of open pools, by pool; "" is this computer.
Result<std::map<std::string, std::string>> logins_of_pools(const World& world) {
  const auto pools = open_pools_of(world, kProvider);
  if (!pools) return fail(pools);
  std::map<std::string, std::string> out;
  for (const auto& [id, pool] : *pools) out[id] = pool.setting("login");
  return out;
}

}  // namespace

// A pool of another cluster is reported by the sweep of that one alone.
Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  const ProviderSpec spec = with_readable_settings(world, kProvider);
  const auto known = logins_of_pools(world);
  const auto pools = known.value_or(std::map<std::string, std::string>{});
  std::set<std::string> logins;
  for (const auto& [pool, login] : pools) logins.insert(login);
  const Status reachable = is_reachable(world, spec);
  if (reachable) logins.insert(spec.setting("login"));
  if (logins.empty() && options.is_named) return reachable;  // nothing could be searched
  Status first;
  for (const std::string& login : logins) {
    const auto access = find_access(login);
    Status swept = access ? Status() : fail(access);
    if (access) {
      SlurmAccount account(world, *access);
      const auto tell_ours = [&](const Swept& one) {
        const auto pool = pools.find(one.resource.id);
        const bool is_elsewhere = pool != pools.end() && pool->second != login;
        if (one.action != SweepAction::skipped || !is_elsewhere) tell(one);
      };
      swept = sweep_named(world, account, options, tell_ours, deadline);
    }
    if (!swept && first) first = swept;
  }
  return first && !known ? fail(known) : first;
}

}  // namespace skyward::provider::slurm
