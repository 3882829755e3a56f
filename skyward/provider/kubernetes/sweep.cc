#include "skyward/provider/kubernetes/sweep.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "skyward/provider/keeping/ways.h"
#include "skyward/provider/kubernetes/kubernetes_account.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::kubernetes {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  const Access here = access_of(world, with_readable_settings(world, kProvider));
  const auto pools = open_pools_of(world, kProvider);
  std::vector<SweepWay> ways;
  const auto add = [&](const Access& access, bool is_set) {
    ways.push_back(
        {.account = std::make_unique<KubernetesAccount>(world, access),
         .path = fmt::format("{}\n{}\n{}", access.kubeconfig, access.context, access.name_space),
         .is_set = is_set});
  };
  if (pools) {
    for (const auto& [id, pool] : *pools) add(access_of(pool), false);
  }
  const Status reachable = is_reachable(world, here);
  if (reachable) add(here, true);
  if (ways.empty() && options.is_named) return reachable;  // nothing could be searched
  return sweep_ways(world, pools, ways, options, tell, deadline);
}

}  // namespace skyward::provider::kubernetes
