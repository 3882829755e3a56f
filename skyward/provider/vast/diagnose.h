#pragma once

// Checks whether this computer can open pools at Vast.ai: the key and its source, the account, the
// clock, the credit, and what is on offer. It creates nothing.

#include "skyward/provider/table.h"

namespace skyward::provider::vast {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

}  // namespace skyward::provider::vast
