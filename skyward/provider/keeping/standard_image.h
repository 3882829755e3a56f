#pragma once

// The container image of a pool that names none, at every provider whose nodes are containers.

#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// With the Python that the pool needs.
std::string standard_image(const PoolSpec& spec);

}  // namespace skyward::provider
