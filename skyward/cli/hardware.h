#pragma once

// The hardware of each machine, as options of `skyward run` and `skyward offers list` ask for it.

#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::cli {

struct Hardware {
  std::string accelerator{};
  std::optional<double> count{};  // devices of each machine
  double cpus = 0;
  std::string memory{};
};

// Checks it and adds it to `spec`. Fails with `invalid`.
Status add_hardware(PoolSpec& spec, const Hardware& wanted);

}  // namespace skyward::cli
