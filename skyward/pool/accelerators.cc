#include "skyward/pool/accelerators.h"

#include <utility>

#include "skyward/call/error.h"

namespace skyward::accelerators {

Accelerator from_catalogue(std::string_view name, const AcceleratorOptions& options) {
  auto made = catalogue_accelerator(name, options);
  if (!made) throw_error(made.error());
  return *std::move(made);
}

Accelerator Custom(std::string name, std::string memory, double count, std::string cuda_min,
                   std::string cuda_max) {
  Accelerator own{.name = std::move(name), .memory = std::move(memory), .count = count};
  own.custom = true;
  own.cuda_min = std::move(cuda_min);
  own.cuda_max = std::move(cuda_max);
  auto made = checked(std::move(own));
  if (!made) throw_error(made.error());
  return *std::move(made);
}

}  // namespace skyward::accelerators
