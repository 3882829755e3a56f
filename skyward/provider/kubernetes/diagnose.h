#pragma once

// Checks whether kubectl reaches a cluster, and what its user may do there (Diagnose in table.h).

#include <functional>
#include <vector>

#include "skyward/provider/kubernetes/kubernetes_api.h"
#include "skyward/provider/table.h"

namespace skyward::provider::kubernetes {

// What a pool does in its namespace.
const std::vector<Right>& needed_rights();
// Fails with `denied` and a list when the user has not all of them.
Status check_rights(Api& api, const Access& access, Time deadline);

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);
// TableRow::credentials: whether there is a kubectl that is set up for a cluster.
Status has_credentials(const World& world, Time deadline);

}  // namespace skyward::provider::kubernetes
