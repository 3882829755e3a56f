#pragma once

// What a pool asks of a cluster, from the provider's settings and the pool's own wishes, and which
// nodes can hold its pods. Pure.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/kubernetes/kubernetes_api.h"
#include "skyward/provider/kubernetes/manifest.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::kubernetes {

// The provider's settings. Empty: not given.
struct Wishes {
  std::string image{};
  std::string gpu{};  // the resource that a GPU is
  std::map<std::string, std::string> selector{};
  std::vector<Toleration> tolerations{};
  std::string service_account{};
  std::optional<std::int64_t> user{};
  bool autoscaled = false;  // nodes may be started for the pool
};
// Fails with `invalid` on what no cluster takes.
Result<Wishes> read_wishes(const ProviderSpec& spec);

// "dedicated=ml:NoSchedule", "dedicated:NoSchedule", "dedicated".
std::optional<Toleration> read_toleration(std::string_view text);

// Nodes that are alike.
struct Candidate {
  Offer offer{};  // its type is that of the nodes, or with GPUs "p5.48xlarge:nvidia-h100-80gb-hbm3"
  std::string gpu_resource{};
  std::map<std::string, std::string> type_label{};  // by which pods get nodes of this type
  std::map<std::string, std::string> gpu_label{};   // ... or with these GPUs
  std::map<std::string, std::string> architecture_label{};
  bool gpus_alone = false;  // a taint keeps pods without GPUs away
  bool seen = true;         // else it is what the pool asks for
  struct Room {
    Quantities whole{};
    Quantities free{};
  };
  std::vector<Room> nodes{};
};
// Of the nodes that take the pool's pods. What is free is what no pod has asked for.
std::vector<Candidate> candidates_of(const std::vector<ClusterNode>& nodes, const Usage& usage,
                                     const Wishes& wishes, const std::string& cluster);
// Where no nodes can be looked at, or nodes are started for the pool: whatever the pool asks for.
Candidate unseen_candidate(const PoolSpec& spec, const Wishes& wishes, const std::string& cluster);

// The candidate whose offer that was; null: it is no longer there.
const Candidate* candidate_for(const std::vector<Candidate>& candidates, const Offer& offer);

// A pod of the pool, without its life and its keeper.
PodRequest request_of(const Candidate& candidate, const Wishes& wishes, const PoolSpec& spec);
// How many such pods the nodes hold that have the candidate's labels; or have room for now.
int count_pods(const PodRequest& request, const std::vector<Candidate>& candidates, bool now);

// The offers that fit the pool, those first that have room for it now; but unless the pool asks for
// an architecture, that of this program comes before others. Fails with `invalid` when there are
// none.
Result<std::vector<Offer>> fitting_candidates(const std::vector<Candidate>& candidates,
                                              const Wishes& wishes, const PoolSpec& spec);

}  // namespace skyward::provider::kubernetes
