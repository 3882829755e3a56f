#pragma once

#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// The container image of a pool that names none: with the Python that the pool needs.
std::string standard_image(const PoolSpec& spec);

}  // namespace skyward::provider
