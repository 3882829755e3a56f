#pragma once

// Whether pools can be opened at Amazon with what is set up on this computer: the credentials and
// where they come from, the region, each permission that a pool needs. Asks by dry runs: nothing is
// made.

#include "skyward/provider/table.h"

namespace skyward::provider::aws {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

// Region and profile, and where they come from.
std::vector<SettingOrigin> settings_here(const World& world);

}  // namespace skyward::provider::aws
