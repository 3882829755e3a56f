#pragma once

// One pool at Amazon: its zones, image and security group, and the terms of its launches.

#include <memory>

#include "skyward/provider/aws/client.h"
#include "skyward/provider/aws/images.h"
#include "skyward/provider/aws/market.h"
#include "skyward/provider/renting/rented_cloud.h"

namespace skyward::provider::aws {

// What the pool asked for, and the offers to try, best first.
struct SiteRequest {
  PoolSpec spec{};
  std::vector<Offer> offers{};
  Prices prices{};
};

// What the settings say about every launch. The security group is empty unless it is the user's,
// and the tags are the user's alone.
LaunchRequest launch_request(const ProviderSpec& settings, const BootImage& boot);

// Finds where the pool's machines can run. Creates nothing, but removes groups that earlier pools
// left in the region. The client outlives the site.
Result<std::unique_ptr<RentedSite>> find_site(Client& client, const SiteRequest& request,
                                              Ledger& ledger, Time deadline);

}  // namespace skyward::provider::aws
