#pragma once

// Where this code runs. On a worker: its node, its rank, its peers. Elsewhere: node 0 of 1, with an
// empty job id, so that a function called with .local() runs as the only worker.

#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/spec/topology.h"

namespace skyward {

// From the environment variable COMPUTE_POOL, which is set before main(). Throws ConfigurationError
// if it is malformed.
const InstanceInfo& instance_info();

// The model of the node's accelerators, such as "H100-80GB"; empty without one.
std::string current_accelerator();

// Reads the JSON text of COMPUTE_POOL. Fails with `invalid`.
Result<InstanceInfo> parse_instance_info(std::string_view text);

}  // namespace skyward
