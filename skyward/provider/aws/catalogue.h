#pragma once

// What Amazon sells in one region and for how much, kept on disk for a while: the types and their
// prices for a day, spot prices for a quarter of an hour.

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
  // On demand. Where the price list cannot be asked, the table that ships with Skyward, for the
  // region it is of.
  std::map<std::string, double> prices(Time deadline);
  // Of these types, by zone, added to `prices`. Without rights to ask: none.
  Result<void> add_spot_prices(const std::vector<std::string>& types, Prices& prices,
                               Time deadline);
  // Where the prices come from, in words; empty: from Amazon.
  const std::string& price_note() const { return price_note_; }

 private:
  Client& client_;
  const FactCache facts_;
  std::string price_note_;
};

// The texts of the cache.
std::string to_text(const std::vector<InstanceType>& types);
std::vector<InstanceType> types_of_text(const std::string& text);

}  // namespace skyward::provider::aws
