#include "skyward/engine/function_cache.h"

#include <algorithm>
#include <limits>

#include "skyward/base/check.h"

namespace skyward::engine {
namespace {

// What a function weighs beside its body: some KiB in each worker process that has run it, and a
// node may have many of these. So no more than 4096 functions stay on a node, however small.
constexpr std::uint64_t kOverheadBytes = 64 << 10;
constexpr std::uint64_t kInUse = std::numeric_limits<std::uint64_t>::max();

}  // namespace

bool FunctionCache::use(FunctionId function, const wire::Buffer& body) {
  auto place = place_of(function);
  const bool is_new = place == entries_.end() || place->function != function;
  if (is_new) {
    place = entries_.insert(place, {function, body.size + kOverheadBytes, body.blob.id});
    bytes_ += place->bytes;
  }
  ++place->tasks;
  return is_new;
}

void FunctionCache::release(FunctionId function) {
  const auto found = place_of(function);
  SKYWARD_CHECK(found != entries_.end() && found->function == function && found->tasks > 0);
  if (--found->tasks == 0) found->idle_since = ++idle_count_;
}

std::vector<FunctionCache::Dropped> FunctionCache::shrink(std::uint64_t budget) {
  std::vector<Dropped> dropped;
  while (bytes_ > budget) {
    const auto idle_for_longest = std::ranges::min_element(entries_, {}, [](const Entry& entry) {
      return entry.tasks > 0 ? kInUse : entry.idle_since;
    });
    if (idle_for_longest == entries_.end() || idle_for_longest->tasks > 0) break;
    bytes_ -= idle_for_longest->bytes;
    dropped.push_back({idle_for_longest->function, idle_for_longest->blob});
    entries_.erase(idle_for_longest);
  }
  return dropped;
}

std::vector<FunctionCache::Entry>::iterator FunctionCache::place_of(FunctionId function) {
  return std::ranges::lower_bound(entries_, function, {}, &Entry::function);
}

void FunctionCache::clear() { *this = {}; }

}  // namespace skyward::engine
