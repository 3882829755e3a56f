#include "skyward/provider/fact_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"

namespace skyward::provider {

namespace {

constexpr std::int64_t kDay_s = 86400;

}  // namespace

FactCache::FactCache(const World& world, std::string_view cloud, std::string_view place,
                     std::string_view endpoint)
    : world_(world) {
  const std::string root = cache_directory(world);
  if (root.empty() || endpoint.empty()) return;
  const std::string name = to_hex(sha256(as_bytes(endpoint))).substr(0, 8);
  directory_ = fmt::format("{}/{}/{}-{}", root, cloud, place, name);
}

std::string FactCache::path_of(std::string_view what) const {
  return fmt::format("{}/{}.json", directory_, what);
}

std::string FactCache::read(std::string_view what) const {
  if (directory_.empty()) return {};
  const Result<std::string> text = world_.read_file(path_of(what));
  if (!text) return {};
  const std::size_t end = text->find('\n');
  const std::int64_t until = std::atoll(text->c_str());
  const std::int64_t now = world_.wall_s();
  if (end == std::string::npos || now >= until || until - now > kDay_s) return {};
  return text->substr(end + 1);
}

void FactCache::keep(std::string_view what, std::int64_t seconds, std::string_view text) const {
  if (directory_.empty()) return;
  const std::int64_t until = world_.wall_s() + std::min(seconds, kDay_s);
  (void)world_.write_file(path_of(what), fmt::format("{}\n{}", until, text));
}

}  // namespace skyward::provider
