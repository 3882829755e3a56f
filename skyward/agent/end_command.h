#pragma once

// Runs the command that ends this machine from inside.

#include <functional>
#include <string>
#include <vector>

#include "skyward/base/time.h"

namespace skyward::agent {

// The machine costs money until the command has worked: tries it several times, and calls `pause`
// between two of them, as what failed may pass in some seconds. Blocks. True when it has worked.
bool run_end_command(const std::vector<std::string>& command,
                     const std::function<void(Duration)>& pause);

}  // namespace skyward::agent
