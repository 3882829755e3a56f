#pragma once

// Checks whether podman or docker is there, and what its host has (Diagnose in table.h).

#include <functional>

#include "skyward/provider/table.h"

namespace skyward::provider::container {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);
// TableRow::credentials: whether one of the two programs is there, or on a host that is set.
Status has_credentials(const World& world, Time deadline);

}  // namespace skyward::provider::container
