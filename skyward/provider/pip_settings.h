#pragma once

// What steers uv and pip when an image's packages are installed: the settings of this computer, and
// what the pool says itself.

#include <map>
#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// pip's settings as pip itself sees them, by the absolute path of an interpreter; none without pip.
// Runs pip, for at most ten seconds.
std::map<std::string, std::string> pip_config(const std::string& python);

// The pool's own variables that uv and pip look at: UV_…, PIP_….
std::map<std::string, std::string> steering_variables(const PoolSpec& spec);

}  // namespace skyward::provider
