#pragma once

// The functions whose bodies a node has. The engine decides what stays there: it knows which tasks
// the node has, and sends a body again when it is needed again. Pure.

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::engine {

class FunctionCache {
 public:
  // A task of the function goes to the node. True when the body must go along.
  bool use(FunctionId function, const wire::Buffer& body);
  // ... and is there no longer.
  void release(FunctionId function);

  struct Dropped {
    FunctionId function;
    BlobId blob;  // of the body; 0 when it was small
  };
  // Takes out what is beyond the budget and needed by no task there, the longest unused first.
  std::vector<Dropped> shrink(std::uint64_t budget);

  // Another machine stands there, which has nothing.
  void clear();

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    BlobId blob;
    std::uint32_t tasks = 0;
    std::uint64_t idle_since = 0;  // key in idle_, when it has no tasks
  };
  std::unordered_map<FunctionId, Entry> entries_;
  std::map<std::uint64_t, FunctionId> idle_;
  std::uint64_t idle_count_ = 0;  // counts up
  std::uint64_t bytes_ = 0;
};

}  // namespace skyward::engine
