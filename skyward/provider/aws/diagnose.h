#pragma once

// Checks whether this computer can open pools at Amazon: the credentials and their source, the
// region, and each permission that a pool needs. Permissions are checked with dry runs, which
// create nothing.

#include "skyward/provider/table.h"

namespace skyward::provider::aws {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

// TableRow::credentials.
Status has_credentials(const World& world, Time deadline);

// The region and the profile, and where each is set.
std::vector<SettingOrigin> settings_here(const World& world);

}  // namespace skyward::provider::aws
