#include "skyward/provider/slurm/sweep.h"

#include <utility>
#include <vector>

#include "skyward/provider/keeping/ways.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/slurm/slurm_account.h"

namespace skyward::provider::slurm {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  const ProviderSpec spec = with_readable_settings(world, kProvider);
  const auto pools = open_pools_of(world, kProvider);
  std::vector<SweepWay> ways;
  const auto add = [&](const std::string& login, bool is_set) -> Status {
    const auto access = find_access(login);
    if (!access) return fail(access);
    ways.push_back({.account = std::make_unique<SlurmAccount>(world, *access),
                    .path = login,
                    .is_set = is_set});
    return {};
  };
  if (pools) {
    for (const auto& [id, pool] : *pools) {
      if (Status added = add(pool.setting("login"), false); !added) return added;
    }
  }
  Status reachable = is_reachable(world, spec, deadline);
  if (reachable) reachable = add(spec.setting("login"), true);
  if (ways.empty() && options.is_named) return reachable;  // nothing could be searched
  return sweep_ways(world, pools, ways, options, tell, deadline);
}

}  // namespace skyward::provider::slurm
