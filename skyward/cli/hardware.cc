#include "skyward/cli/hardware.h"

#include <utility>

#include "skyward/spec/accelerator.h"
#include "skyward/spec/memory_size.h"

namespace skyward::cli {

Status add_hardware(PoolSpec& spec, const Hardware& wanted) {
  if (!wanted.accelerator.empty()) {
    auto accelerator = catalogue_accelerator(wanted.accelerator, {.count = wanted.count});
    if (!accelerator) return fail(accelerator);
    spec.accelerator = *std::move(accelerator);
  } else if (wanted.count) {
    return fail(ErrorKind::invalid, "--count: there is no --accelerator to count",
                "say which, for example --accelerator A100 --count 2");
  }
  spec.cpus = wanted.cpus;
  if (!wanted.memory.empty()) {
    const auto memory = parse_memory_mb(wanted.memory, "--memory");
    if (!memory) return fail(memory);
    spec.memory_mb = *memory;
  }
  return {};
}

}  // namespace skyward::cli
