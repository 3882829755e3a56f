#pragma once

// The choice among what a cloud offers, the same at each: what a pool's machines must have, which
// offers fit, which others to try. Pure.

#include <optional>
#include <span>
#include <vector>

#include "skyward/provider/launch_plan.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// Refuses an architecture that this installation has no agent for.
Status check_architecture(const PoolSpec& spec);

// Those that fit what the pool's machines must have, the best first. Fails with `invalid` when none
// does, naming what is near.
Result<std::vector<Offer>> fitting_offers(std::span<const Offer> offers, const PoolSpec& spec);

// The types to try for an offer, it first: the ones after it in `ranked` while they cost little
// more, and no more than the pool's limit for an hour.
std::vector<Offer> with_alternatives(std::span<const Offer> ranked, const Offer& offer,
                                     const PoolSpec& spec);

// Takes a place out of the markets whose price may exceed the pool's limits. A limit that cannot be
// kept is no limit: with one, a market whose price is not known is left out. (Of a spot machine,
// max_hourly_cost bounds the bid.)
void keep_affordable(const PoolSpec& spec, LaunchTarget& place);

}  // namespace skyward::provider
