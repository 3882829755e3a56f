#include "skyward/engine/function_cache.h"

#include <utility>

#include "skyward/base/check.h"

namespace skyward::engine {
namespace {

// What a function weighs beside its body: some KiB in each worker process that has run it, and a
// node may have many of these. So no more than 4096 functions stay on a node, however small.
constexpr std::uint64_t kOverheadBytes = 64 << 10;

}  // namespace

bool FunctionCache::use(FunctionId function, const wire::Buffer& body) {
  Entry& entry = entry_of(function).second;
  const bool is_new = entry.bytes == 0;
  if (is_new) {
    entry.bytes = body.size + kOverheadBytes;
    entry.blob = body.blob.id;
    bytes_ += entry.bytes;
  }
  if (entry.tasks == 0) idle_.erase(entry.idle_since);
  ++entry.tasks;
  return is_new;
}

void FunctionCache::release(FunctionId function) {
  Entry& entry = entry_of(function).second;
  SKYWARD_CHECK(entry.tasks > 0);
  if (--entry.tasks > 0) return;
  entry.idle_since = ++idle_count_;
  idle_.emplace(entry.idle_since, function);
}

BlobId FunctionCache::lose(FunctionId function) {
  Entry& entry = entry_of(function).second;
  bytes_ -= std::exchange(entry.bytes, 0);
  return std::exchange(entry.blob, {});
}

std::vector<FunctionCache::Dropped> FunctionCache::shrink(std::uint64_t budget) {
  std::vector<Dropped> dropped;
  while (bytes_ > budget && !idle_.empty()) {
    const FunctionId function = idle_.begin()->second;
    idle_.erase(idle_.begin());
    const auto found = entries_.find(function);
    bytes_ -= found->second.bytes;
    dropped.push_back({function, found->second.blob});
    if (last_ == &*found) last_ = nullptr;
    entries_.erase(found);
  }
  return dropped;
}

FunctionCache::Entries::value_type& FunctionCache::entry_of(FunctionId function) {
  if (last_ == nullptr || last_->first != function) last_ = &*entries_.try_emplace(function).first;
  return *last_;
}

void FunctionCache::clear() { *this = {}; }

}  // namespace skyward::engine
