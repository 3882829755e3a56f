#pragma once

// Checks whether this computer can open pools at Verda: the client id and its secret, the clock,
// the balance, and what is available in the region. It creates nothing.

#include "skyward/provider/table.h"

namespace skyward::provider::verda {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

}  // namespace skyward::provider::verda
