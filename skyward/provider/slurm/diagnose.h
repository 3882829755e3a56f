#pragma once

// Checks whether this computer reaches a cluster, and what the user may do there (Diagnose in
// table.h).

#include <functional>

#include "skyward/provider/table.h"

namespace skyward::provider::slurm {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);
// TableRow::credentials: whether Slurm is here, or a login node is named.
Status has_credentials(const World& world, Time deadline);

}  // namespace skyward::provider::slurm
