#pragma once

// Chooses the provider and its settings before a pool opens, and lists what providers sell. Listing
// blocks, and asks all providers at the same time, each on its own thread.

#include <functional>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

// The best offer of each choice, or why there is none, in the order of the choices; each choice has
// one provider. Calls `poll` meanwhile; if that throws, the exception propagates at once and the
// pending requests are abandoned.
std::vector<Result<Offer>> best_offers(const std::vector<PoolSpec>& choices,
                                       const std::function<void()>& poll);

// The choices in the order in which they are tried. Pure: `offers` is one answer for each choice.
std::vector<std::size_t> order_of(const PoolSpec& spec, const std::vector<Result<Offer>>& offers);

// A provider with all its settings: the given ones, and otherwise those of the environment and the
// user's files (provider/settings.h). Reads the files.
Result<ProviderSpec> with_settings(const ProviderSpec& said);
// The name of the provider that a pool gets if it names this one, or none ("").
Result<std::string> provider_to_take(const std::string& named);

// Everything that a provider sells, regardless of any pool; `poll` as above.
Result<std::vector<Offer>> catalogue_of(const ProviderSpec& provider,
                                        const std::function<void()>& poll);

}  // namespace skyward::engine
