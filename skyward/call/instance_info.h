#pragma once

// Where this code runs. On a worker: its node, its rank, its peers. Elsewhere: node 0 of 1, with an
// empty job id, so that a function called with .local() runs as the only worker.

#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/spec/topology.h"

namespace skyward {

// From the environment variable COMPUTE_POOL, which is set before main(), or as it is since a node
// has got a new machine: a later call may return another object. All stay valid. Throws
// ConfigurationError if the variable is malformed. From any thread.
const InstanceInfo& instance_info();

// The value of COMPUTE_POOL that instance_info() reads; empty outside of a pool. For processes that
// a worker starts: the variable itself keeps its first value.
std::string instance_info_text();
// A worker's agent has told it another one.
void set_instance_info(std::string text);

// The model of the node's accelerators, such as "H100-80GB"; empty without one.
std::string current_accelerator();

// Reads the JSON text of COMPUTE_POOL. Fails with `invalid`.
Result<InstanceInfo> parse_instance_info(std::string_view text);

}  // namespace skyward
