#pragma once

// What `skyward run` was asked for, checked before anything is started: the pool, the order for its
// nodes, and the files.

#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/cli/commands.h"
#include "skyward/cli/run_files.h"
#include "skyward/run/order.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::cli {

struct RunRequest {
  PoolSpec spec{};
  run::RunOrder order{};
  std::vector<std::uint8_t> content{};  // of the order's files
  std::vector<std::string> notes{};     // for people
  std::string output{};                 // a directory here, absolute; empty: nothing comes back
};

// Looks at files and at the Python that is installed here, and makes the output directory.
Result<RunRequest> make_run_request(const RunOptions& options);

}  // namespace skyward::cli
