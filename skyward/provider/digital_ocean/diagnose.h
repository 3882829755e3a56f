#pragma once

// Checks whether this computer can open pools at DigitalOcean: the token and its source, its
// account, what it may read and delete, and the region. It creates nothing; whether the token may
// create droplets shows when a pool opens.

#include "skyward/provider/table.h"

namespace skyward::provider::digital_ocean {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

}  // namespace skyward::provider::digital_ocean
