#include "skyward/provider/container/sweep.h"

#include <utility>
#include <vector>

#include "skyward/provider/container/container_account.h"
#include "skyward/provider/keeping/ways.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::container {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  const auto pools = open_pools_of(world, kProvider);
  std::vector<SweepWay> ways;
  const auto add = [&](const Access& access, bool is_set) {
    ways.push_back({.account = std::make_unique<ContainerAccount>(world, access),
                    .path = access.text(),
                    .is_set = is_set});
  };
  if (pools) {
    for (const auto& [id, pool] : *pools) add(access_of(pool), false);
  }
  const auto here = find_access(with_readable_settings(world, kProvider));
  const Status reachable = here ? is_reachable(world, *here) : Status(fail(here));
  if (reachable) add(*here, true);
  if (ways.empty() && options.is_named) return reachable;  // nothing could be searched
  return sweep_ways(world, pools, ways, options, tell, deadline);
}

}  // namespace skyward::provider::container
