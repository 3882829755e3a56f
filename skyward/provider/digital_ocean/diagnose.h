#pragma once

// Whether pools can be opened at DigitalOcean with what is set up on this computer: the token and
// where it comes from, its account, what it may read, the region. Nothing is made; what the token
// may create and delete shows when a pool opens.

#include "skyward/provider/table.h"

namespace skyward::provider::digital_ocean {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

}  // namespace skyward::provider::digital_ocean
