#pragma once

// Caches facts about a cloud that rarely change: types, prices. Each kind of fact has one file,
// which begins with its expiry time and can be deleted at any time.

#include <cstdint>
#include <string>
#include <string_view>

#include "skyward/provider/world.h"

namespace skyward::provider {

class FactCache {
 public:
  // The facts of one service in one region. `endpoint` is the service's address, so that a test
  // double's facts are never taken for the cloud's. The world outlives this.
  FactCache(const World& world, std::string_view cloud, std::string_view place,
            std::string_view endpoint);

  // Empty if the fact is missing or expired.
  std::string read(std::string_view what) const;
  // Keeps a fact for `seconds`, at most a day. If it cannot be written, the next read() misses.
  void keep(std::string_view what, std::int64_t seconds, std::string_view text) const;

 private:
  std::string path_of(std::string_view what) const;

  const World& world_;
  std::string directory_;  // empty: nothing is cached
};

}  // namespace skyward::provider
