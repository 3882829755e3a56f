#pragma once

// Which clouds a command asks when it is given none: those for which this computer has credentials,
// and those where it has pools open.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/provider/table.h"
#include "skyward/provider/world.h"

namespace skyward::cli {

struct CloudsHere {
  std::vector<const provider::TableRow*> rows{};
  std::vector<std::string_view> without{};  // clouds without credentials here, as people call them
  // Whether somebody uses one of the rows: it was named, this computer has credentials for it, or
  // the ledger has pools there. Docker alone proves nothing: it is on many computers.
  bool in_use = false;
};

// `named`: only this one, credentials or not. Fails if it cannot be rented from, and without
// credentials for any cloud.
Result<CloudsHere> clouds_here(const provider::World& world, const std::string& named,
                               Time deadline);

// For a command that needs a cloud, where there is none to ask.
Error no_credentials(const CloudsHere& clouds);

// "no credentials for DigitalOcean and Verda: not searched"; empty if there are some for all.
std::string note_of(const CloudsHere& clouds, std::string_view consequence);

// Whether the provider has regions to choose from; false for one without a sheet.
bool takes_region(std::string_view provider);

}  // namespace skyward::cli
