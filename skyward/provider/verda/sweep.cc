#include "skyward/provider/verda/sweep.h"

#include <utility>

#include "skyward/provider/settings.h"
#include "skyward/provider/verda/verda_account.h"

namespace skyward::provider::verda {

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  auto access = find_access(world, with_readable_settings(world, kProvider));
  if (!access) return fail(access);
  VerdaAccount account(world, *std::move(access));
  return sweep_named(world, account, options, tell, deadline);
}

}  // namespace skyward::provider::verda
