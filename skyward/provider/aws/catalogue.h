#pragma once

// What Amazon sells in one region and for how much, kept on disk for a while: the types and their
// prices for a day, spot prices for a quarter of an hour.

#include <string>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/aws/market.h"

namespace skyward::provider::aws {

class Catalogue {
 public:
  // `client` outlives this.
  explicit Catalogue(Client& client) : client_(client) {}

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
  std::string cached(const std::string& what) const;
  void keep(const std::string& what, std::int64_t seconds, const std::string& text) const;
  std::string path_of(const std::string& what) const;

  Client& client_;
  std::string price_note_;
};

// The texts of the cache.
std::string to_text(const std::vector<InstanceType>& types);
std::vector<InstanceType> types_of_text(const std::string& text);

}  // namespace skyward::provider::aws
