#pragma once

// The clouds that this build knows: one row each.

#include <memory>
#include <string_view>
#include <vector>

#include "skyward/provider/provider.h"

namespace skyward::provider {

struct TableRow {
  std::string_view name;  // as in ProviderSpec::name
  Result<std::unique_ptr<Provider>> (*make)(const ProviderSpec&);
};

const std::vector<TableRow>& provider_table();

}  // namespace skyward::provider
