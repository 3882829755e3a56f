#pragma once

// Checks whether this computer can open pools at DigitalOcean: the token and its source, its
// account, what it may read and delete, and the region. It creates nothing; whether the token may
// create droplets shows when a pool opens.

#include <vector>

#include "skyward/provider/table.h"

namespace skyward::provider::digital_ocean {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

// The SSH key in the variable of DigitalOcean's tools.
std::vector<SettingOrigin> settings_here(const World& world);

}  // namespace skyward::provider::digital_ocean
