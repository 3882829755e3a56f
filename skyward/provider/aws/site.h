#pragma once

// One pool at Amazon: the zones, the image and the group of its machines, and what they are bought
// with.

#include <memory>

#include "skyward/provider/aws/client.h"
#include "skyward/provider/aws/market.h"
#include "skyward/provider/renting/rented_cloud.h"

namespace skyward::provider::aws {

// What a pool shall get: its spec, and the offers to try, the best first.
struct SiteRequest {
  PoolSpec spec{};
  std::vector<Offer> offers{};
  Prices prices{};
};

// Finds where the machines may stand. Makes nothing; removes groups that earlier pools of this
// computer have left in the region. The client outlives the site.
Result<std::unique_ptr<RentedSite>> find_site(Client& client, const SiteRequest& request,
                                              Ledger& ledger, Time deadline);

}  // namespace skyward::provider::aws
