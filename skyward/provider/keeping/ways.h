#pragma once

// Sweeps where one provider's pools may be in several places: where the settings lead, and where
// the ledger says that open pools are.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/ledger.h"
#include "skyward/provider/renting/named_account.h"

namespace skyward::provider {

// The pools of a provider that the ledger has open, by id. Fails if it cannot be read.
Result<std::map<std::string, LedgerPool>> open_pools_of(const World& world,
                                                        std::string_view provider);

struct SweepWay {
  std::unique_ptr<NamedAccount> account{};
  std::string path{};   // in words: ways with one path are one, and are signed in to once
  bool is_set = false;  // the settings lead there, and not the ledger
};
// Sweeps each account once. A pool of another one is reported by the sweep of that one alone. The
// settings may lead to a place that is off or refuses this user, and that no pool of this computer
// is in: unless the user named the provider, such a place is skipped. Where none was searched, the
// provider is reported in its stead.
// `known`: from open_pools_of(). Where the ledger cannot be read, the sweep goes by the marks
// alone, and fails in the end.
Status sweep_ways(const World& world, const Result<std::map<std::string, LedgerPool>>& known,
                  const std::vector<SweepWay>& ways, const SweepOptions& options,
                  const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider
