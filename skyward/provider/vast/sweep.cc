#include "skyward/provider/vast/sweep.h"

#include <utility>

#include "skyward/provider/settings.h"
#include "skyward/provider/vast/vast_account.h"

namespace skyward::provider::vast {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  auto access = find_access(world, with_readable_settings(world, kProvider));
  if (!access) return fail(access);
  VastAccount account(world, std::move(access->account));
  return sweep_named(world, account, options, tell, deadline);
}

}  // namespace skyward::provider::vast
