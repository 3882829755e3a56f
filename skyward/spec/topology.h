#pragma once

// Where a worker stands among the others, and which part of the data is its own.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skyward {

struct Peer {
  int node = 0;
  std::string private_ip{};
  bool operator==(const Peer&) const = default;
};

// What instance_info() tells a task.
struct InstanceInfo {
  int node = 0;
  int worker = 0;
  int total_nodes = 1;
  int workers_per_node = 1;
  std::vector<std::string> accelerators{};  // model name per device of this node
  int total_accelerators = 0;
  std::string head_addr{};
  int head_port = 29500;
  std::string job_id{};
  std::vector<Peer> peers{};  // by node; empty in a pool of more than kMaxPeersTold
  // The provider, when its nodes cannot reach each other: then head_addr and peers are empty.
  std::string no_network_of{};
  int slot = 0;  // of the worker's `concurrency`, from 0; from kSlotVariable

  bool operator==(const InstanceInfo&) const = default;

  int global_worker_index() const { return node * workers_per_node + worker; }
  int total_workers() const { return total_nodes * workers_per_node; }
  bool is_head() const { return global_worker_index() == 0; }
};

// By which a worker learns its InstanceInfo.
inline constexpr const char* kInstanceInfoVariable = "COMPUTE_POOL";
// The same for its `slot`, which the agent alone knows.
inline constexpr const char* kSlotVariable = "SKYWARD_SLOT";

// The value of that environment variable: one JSON object, keys in the order node,
// worker, total_nodes, workers_per_node, accelerators, total_accelerators, head_addr, head_port,
// job_id, peers, accelerator, network.
std::string to_json(const InstanceInfo& info);

// The same text for a node on which these devices were found: to_json() of the driver, which does
// not know them yet, with `accelerators`, `total_accelerators` (nodes are alike) and `accelerator`
// filled in.
std::string with_accelerators(std::string compute_pool, const std::vector<std::string>& names);

// The same text after a node has got another address: in `peers`, if they are listed, and in
// `head_addr`, if it is node 0.
std::string with_peer(std::string compute_pool, const Peer& peer);

// The positions (0 … count−1) that rank `index` of `total` gets. Strided over the (optionally
// shuffled) order, nothing dropped; with `drop_last` contiguous blocks of equal length, the tail
// dropped. The shuffle is CPython's random.Random(seed).shuffle, so that C++ and Python workers of
// one pool agree. 0 ≤ index < total.
struct ShardOptions {
  std::optional<std::uint64_t> shuffle_seed{};  // empty: no shuffling
  bool drop_last = false;
};
std::vector<std::size_t> shard_indices(std::size_t count, int index, int total,
                                       const ShardOptions& options = {});

}  // namespace skyward
