#pragma once

// What a pool asks of Slurm, from the provider's settings and the pool's own wishes, and which
// partitions can hold it. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/provider/slurm/slurm_api.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::slurm {

// The provider's settings. Empty: not given.
struct Wishes {
  std::string partition{};
  std::string account{};
  std::string qos{};
  std::string gres{};
  Duration time{};
  bool exclusive = false;
  Words extra{};
};
// Fails with `invalid` on a time that is none, and on words for sbatch that would break the pool.
Result<Wishes> read_wishes(const ProviderSpec& spec);

// "90 min", "8 h", "2 d".
std::string text_of(Duration time);

// The first GPUs of a list of generic resources: of "gpu:h100:4(S:0-1),shard:8", four "h100".
struct Gpus {
  std::string type{};  // as the site spells it; empty: the site gives none
  int count = 0;       // 0: there are none
};
Gpus gpus_in(std::string_view gres);

// Nodes that are alike, and what a pool's job may take of one.
struct Candidate {
  Offer offer{};  // its type is "partition", or "partition:h100" where nodes have GPUs
  std::string partition{};
  bool is_default = false;
  std::string gpu_type{};  // as the site spells it
  int nodes = 0;
  Duration most_time{};  // 0: no limit
};
// Of the partitions that take jobs; of those that the settings name, if they name any.
std::vector<Candidate> candidates_of(const std::vector<NodeGroup>& groups, const Wishes& wishes,
                                     const std::string& cluster);
// The offers that fit the pool, those of the default partition first, with what its jobs take of
// each node instead of all that the node has. Fails with `invalid` when there are none. Partitions
// with a limit below the job's time are among them only if no other fits.
Result<std::vector<Offer>> fitting_candidates(const std::vector<Candidate>& candidates,
                                              const Wishes& wishes, const PoolSpec& spec);

// The nodes on which a job for this offer may run. Those of one type may differ in size: only those
// that have what it takes count.
int nodes_for(const std::vector<Candidate>& candidates, const Wishes& wishes, const Offer& offer);

// A job of the pool, without its name, nodes and script. Fails with `invalid` when its time is over
// the partition's limit.
Result<JobRequest> request_of(const Candidate& candidate, const Wishes& wishes,
                              const PoolSpec& spec);

}  // namespace skyward::provider::slurm
