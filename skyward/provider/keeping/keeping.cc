#include "skyward/provider/keeping/keeping.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace skyward::provider {

KeeperTerms keeper_terms(const PoolSpec& spec) {
  return {.limit = std::max(spec.lease, kUnclaimedKeeper)};
}

std::string keeper_settings(std::string_view directory, const KeeperTerms& terms) {
  return fmt::format("d={} limit={} look={}", directory,
                     std::chrono::ceil<std::chrono::minutes>(terms.limit).count(),
                     std::chrono::duration<double>(terms.look_every).count());
}

std::string claim_script(std::string_view directory) {
  return fmt::format("d={}\ntouch \"$d/claimed\"\nprintf 'alive %s\\n' \"$d/claimed\" >&3\n",
                     directory);
}

std::vector<std::string> end_keeper_words(std::string_view directory) {
  return {"sh", "-c", fmt::format("touch {}/over", directory)};
}

}  // namespace skyward::provider
