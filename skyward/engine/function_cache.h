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
    std::uint64_t bytes = 0;  // 0: the node is without the body
    BlobId blob;
    std::uint32_t tasks = 0;
    std::uint64_t idle_since = 0;  // its key in idle_; 0: it is not there
  };
  Entry& entry_of(FunctionId function);
  void put_back();

  // The function that was used last. Most tasks in a row are of one function, and looking it up in
  // a table would take several cache lines more of each node.
  FunctionId last_function_{};
  Entry last_;
  bool has_last_ = false;
  std::unordered_map<FunctionId, Entry> entries_;  // that of last_ is out of date
  std::map<std::uint64_t, FunctionId> idle_;       // without that of last_
  std::uint64_t idle_count_ = 0;                   // counts up
  std::uint64_t bytes_ = 0;
};

}  // namespace skyward::engine
