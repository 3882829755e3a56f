#pragma once

// Chooses among a cloud's offers, the same way for every cloud: which of them fit a pool, and which
// alternatives to try. Pure.

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/launch_plan.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"
#include "skyward/spec/shortage.h"

namespace skyward::provider {

// The accelerator in a cloud's description, as the catalogue spells it: "8x H100 SXM5 80GB" is
// "H100". What the catalogue does not have, a partition of a device among it, keeps its own name.
// Empty for none.
std::string accelerator_in(const std::string& description);

// By device, its count, processors and memory: for people who look through everything.
void sort_catalogue(std::vector<Offer>& offers);

// Refuses an architecture that this installation has no agent for.
Status check_architecture(const PoolSpec& spec);
// The same for the machines of an offer, which a pool may get without asking for an architecture.
Status check_architecture_of(const PoolSpec& spec, const Offer& offer);
// Refuses what asks for a choice among machines, where the user named each of them.
Status check_nothing_to_choose(const PoolSpec& spec, std::string_view provider);

// The offers that meet the pool's requirements, best first. If none does, fails with `invalid` and
// names the closest ones.
Result<std::vector<Offer>> fitting_offers(std::span<const Offer> offers, const PoolSpec& spec);

// The types to try for an offer: its own first, then those after it in `ranked` that cost only
// slightly more and stay within the pool's hourly limit.
std::vector<Offer> with_alternatives(std::span<const Offer> ranked, const Offer& offer,
                                     const PoolSpec& spec);

// The same, of the types that are sold in the offer's region.
std::vector<Offer> with_alternatives_there(std::span<const Offer> ranked, const Offer& offer,
                                           const PoolSpec& spec);

// Excludes a place from the markets (spot, on demand) whose price may exceed the pool's limits. A
// pool with a limit also skips markets whose price is unknown. (For spot machines, max_hourly_cost
// caps the bid.)
void keep_affordable(const PoolSpec& spec, LaunchTarget& place);
// Where a region is one place: its type there, in the markets that it has a price for and that the
// pool can afford.
LaunchTarget launch_target(const PoolSpec& spec, const Offer& offer);

// Regions where no machine was available: left out from then on. Once there is one, so is a region
// that was tried instead and failed in any way.
class EmptyRegions {
 public:
  void note(const Error& error, const std::string& region) {
    if (error.kind == ErrorKind::exhausted || any()) regions_.insert(region);
    const auto shortage = shortage_of(error);
    if (shortage && shortage->kind == ShortageKind::quota) quota_ = std::unexpected(error);
  }
  // The account's quota, where it was reached: one for all regions makes trying others useless.
  const Status& quota() const { return quota_; }
  bool contains(const std::string& region) const { return regions_.contains(region); }
  bool any() const { return !regions_.empty(); }

 private:
  std::set<std::string> regions_;
  Status quota_;
};

}  // namespace skyward::provider
