#pragma once

// The user's own tags for what a pool creates, beside Skyward's (provider/marks.h). Companies
// attribute costs by them, and may forbid what lacks them.

#include "skyward/base/error.h"
#include "skyward/provider/marks.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::aws {

// From the setting "tags". Fails with `invalid` if Amazon would refuse them, or if they are
// Skyward's.
Result<Tags> own_tags(const ProviderSpec& settings);

// Adds them. The settings were checked before.
void add_own_tags(const ProviderSpec& settings, Tags& tags);

}  // namespace skyward::provider::aws
