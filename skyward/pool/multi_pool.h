#pragma once

// Several pools for C++ programs.

#include <cstddef>
#include <memory>
#include <vector>

#include "skyward/pool/compute_pool.h"
#include "skyward/pool/pool_options.h"

namespace skyward {

// Several pools, opened at the same time: set-up takes as long as the slowest of them. When one
// fails, the others are closed, also those that are opening still, and its failure is thrown: of
// several, the first in order.
class MultiPool {
 public:
  explicit MultiPool(std::vector<PoolOptions> options);
  ~MultiPool();
  MultiPool(const MultiPool&) = delete;
  MultiPool& operator=(const MultiPool&) = delete;

  ComputePool& operator[](std::size_t index) { return *pools_.at(index); }
  std::size_t size() const { return pools_.size(); }

 private:
  void close_all();

  std::vector<std::unique_ptr<ComputePool>> pools_;
};

}  // namespace skyward
