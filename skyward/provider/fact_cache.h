#pragma once

// What a cloud has said and what stays true for a while: types, prices. Files that can be deleted
// at any time, one for each kind of fact; the first line of each says until when it holds.

#include <cstdint>
#include <string>
#include <string_view>

#include "skyward/provider/world.h"

namespace skyward::provider {

class FactCache {
 public:
  // The facts of one service at one place. `endpoint` is the service's address: what a double says
  // is never taken for the cloud's word. The world outlives this.
  FactCache(const World& world, std::string_view cloud, std::string_view place,
            std::string_view endpoint);

  // Empty when there is none that holds.
  std::string read(std::string_view what) const;
  // At most a day. Where it cannot be written, the fact is asked for again next time.
  void keep(std::string_view what, std::int64_t seconds, std::string_view text) const;

 private:
  std::string path_of(std::string_view what) const;

  const World& world_;
  std::string directory_;  // empty: there is no place for it
};

}  // namespace skyward::provider
