#pragma once

// The functions whose bodies a node has. The engine decides which of them stay there: it knows the
// node's tasks, and sends a body again when a task needs it. Pure.

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::engine {

class FunctionCache {
 public:
  FunctionCache() = default;
  FunctionCache(FunctionCache&&) = default;
  FunctionCache& operator=(FunctionCache&&) = default;
  FunctionCache(const FunctionCache&) = delete;
  FunctionCache& operator=(const FunctionCache&) = delete;
  ~FunctionCache() = default;

  // A task of the function goes to the node. True if the body must be sent with it.
  bool use(FunctionId function, const wire::Buffer& body);
  // The task is no longer there.
  void release(FunctionId function);
  // The node may be without the body: the next task brings it. Returns its blob; 0 if it was small.
  BlobId lose(FunctionId function);

  struct Dropped {
    FunctionId function;
    BlobId blob;  // of the body; 0 if it was small
  };
  // Removes and returns bodies beyond the budget that no task there needs, least recently used
  // first.
  std::vector<Dropped> shrink(std::uint64_t budget);

  // The node has a new machine, without any bodies.
  void clear();

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    BlobId blob;
    std::uint32_t tasks = 0;
    std::uint64_t idle_since = 0;  // key in idle_ if it has no tasks
  };
  using Entries = std::unordered_map<FunctionId, Entry>;
  Entries::value_type& entry_of(FunctionId function);

  // The entry that was looked up last: most tasks in a row are of one function, and a table takes
  // several cache lines more of each node.
  Entries::value_type* last_ = nullptr;
  Entries entries_;
  std::map<std::uint64_t, FunctionId> idle_;
  std::uint64_t idle_count_ = 0;  // counts up
  std::uint64_t bytes_ = 0;
};

}  // namespace skyward::engine
