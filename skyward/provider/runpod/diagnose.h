#pragma once

// Checks whether this computer can open pools at RunPod: the key and its source, the account, the
// clock, the balance, and what is on sale. It creates nothing.

#include "skyward/provider/table.h"

namespace skyward::provider::runpod {

Status diagnose(const World& world, const SettingOrigin& region,
                const std::function<void(const Finding&)>& tell, Time deadline);

}  // namespace skyward::provider::runpod
