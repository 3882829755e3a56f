#pragma once

// The doubles by name.

#include <memory>
#include <string>
#include <vector>

#include "doubles/cloud.h"

namespace skyward::doubles {

std::vector<std::string> cloud_names();
// Null when there is none of that name.
std::unique_ptr<Cloud> make_cloud(const std::string& name, std::uint64_t seed);

}  // namespace skyward::doubles
