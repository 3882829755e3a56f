#pragma once

// Which provider, and with which settings, before a pool opens; and what providers sell, for
// whoever chooses among several: that blocks, and asks all at the same time, each on a thread of
// its own.

#include <functional>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

// The best offer of each choice, or why there is none; in the order of the choices, each of which
// has one provider. `poll` is called meanwhile and may throw, which is passed on at once: the
// requests that are under way end unheard.
std::vector<Result<Offer>> best_offers(const std::vector<PoolSpec>& choices,
                                       const std::function<void()>& poll);

// The choices in the order in which they are tried. Pure: `offers` is one answer for each choice.
std::vector<std::size_t> order_of(const PoolSpec& spec, const std::vector<Result<Offer>>& offers);

// A provider with all its settings: those that are said, and for the rest what the environment and
// the user's files say (provider/settings.h). Reads the files.
Result<ProviderSpec> with_settings(const ProviderSpec& said);
// The name of the provider that pools get which name this one, or none ("").
Result<std::string> provider_to_take(const std::string& named);

// Everything that a provider sells, whatever a pool may need; `poll` as above.
Result<std::vector<Offer>> catalogue_of(const ProviderSpec& provider,
                                        const std::function<void()>& poll);

}  // namespace skyward::engine
