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
  Entry& entry = entry_of(function);
  const bool is_new = entry.bytes == 0;
  if (is_new) {
    entry.bytes = body.size + kOverheadBytes;
    entry.blob = body.blob.id;
    bytes_ += entry.bytes;
  }
  ++entry.tasks;
  return is_new;
}

void FunctionCache::release(FunctionId function) {
  Entry& entry = entry_of(function);
  SKYWARD_CHECK(entry.tasks > 0);
  --entry.tasks;
}

BlobId FunctionCache::lose(FunctionId function) {
  Entry& entry = entry_of(function);
  bytes_ -= std::exchange(entry.bytes, 0);
  return std::exchange(entry.blob, {});
}

std::vector<FunctionCache::Dropped> FunctionCache::shrink(std::uint64_t budget) {
  std::vector<Dropped> dropped;
  if (bytes_ <= budget) return dropped;
  put_back();
  while (bytes_ > budget && !idle_.empty()) {
    const auto found = entries_.find(idle_.begin()->second);
    idle_.erase(idle_.begin());
    bytes_ -= found->second.bytes;
    dropped.push_back({found->first, found->second.blob});
    entries_.erase(found);
  }
  return dropped;
}

void FunctionCache::clear() { *this = {}; }

FunctionCache::Entry& FunctionCache::entry_of(FunctionId function) {
  if (has_last_ && last_function_ == function) return last_;
  put_back();
  last_ = entries_[function];
  if (last_.idle_since != 0) idle_.erase(std::exchange(last_.idle_since, 0));
  last_function_ = function;
  has_last_ = true;
  return last_;
}

void FunctionCache::put_back() {
  if (!std::exchange(has_last_, false)) return;
  if (last_.tasks == 0) {
    last_.idle_since = ++idle_count_;
    idle_.emplace(last_.idle_since, last_function_);
  }
  entries_[last_function_] = last_;
}

}  // namespace skyward::engine
