#pragma once

// This worker's part of the data. Inside a compute function, every worker gets its own part, and
// together the parts are the whole:
//
//   double mean(const std::vector<double>& all) {
//     const auto mine = sky::shard(all);              // or sky::shard(all, {.shuffle_seed = 42})
//
// Outside a pool the only worker gets everything. Inputs of equal length stay aligned: their parts
// hold the same positions.

#include <cstddef>
#include <vector>

#include "skyward/call/instance_info.h"
#include "skyward/spec/topology.h"

namespace skyward {

// The positions of this worker's part among `count` items.
inline std::vector<std::size_t> my_shard_indices(std::size_t count,
                                                 const ShardOptions& options = {}) {
  const InstanceInfo& info = instance_info();
  return shard_indices(count, info.global_worker_index(), info.total_workers(), options);
}

// This worker's part, copied.
template <typename T>
std::vector<T> shard(const std::vector<T>& data, const ShardOptions& options = {}) {
  std::vector<T> part;
  const auto indices = my_shard_indices(data.size(), options);
  part.reserve(indices.size());
  for (const std::size_t index : indices) part.push_back(data[index]);
  return part;
}

}  // namespace skyward
