#include "skyward/provider/runpod/sweep.h"

#include <utility>

#include "skyward/provider/runpod/runpod_account.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::runpod {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  auto access = find_access(world, with_readable_settings(world, kProvider));
  if (!access) return fail(access);
  RunPodAccount account(world, *std::move(access));
  return sweep_named(world, account, options, tell, deadline);
}

}  // namespace skyward::provider::runpod
