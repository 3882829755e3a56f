#pragma once

// The instance types of one region and their prices. They are cached on disk: types and on-demand
// prices for a day, spot prices for 15 minutes. Prices in other money than dollars are unknown.

#include <string>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/aws/market.h"
#include "skyward/provider/fact_cache.h"

namespace skyward::provider::aws {

class Catalogue {
 public:
  // `client` outlives this.
  explicit Catalogue(Client& client);

  Result<std::vector<InstanceType>> types(Time deadline);
  // Adds on-demand prices. If the price list cannot be read to its end, what has been read counts,
  // and the next call goes on there; the table that ships with Skyward fills the gaps in its
  // region. `needed`: the list is waited for longer, even soon after it did not answer.
  void add_list_prices(Prices& prices, bool needed, Time deadline);
  // Adds the spot prices of these types, by zone; none if the credentials may not ask for them.
  Result<void> add_spot_prices(const std::vector<std::string>& types, Prices& prices,
                               Time deadline);

 private:
  Client& client_;
  const FactCache facts_;
};

// The cache's format.
std::string to_text(const std::vector<InstanceType>& types);
std::vector<InstanceType> types_of_text(const std::string& text);

}  // namespace skyward::provider::aws
