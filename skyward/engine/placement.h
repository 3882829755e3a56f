#pragma once

// Where the pool's machines come from: the offer that it takes, the region of that offer, what was
// prepared there, and the regions that had none. A part of the core: pure, and told in
// core_place_test.cc.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/event.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

class Placement {
 public:
  // The first offer within the hourly limit, of a region that has not refused yet.
  Result<Offer> choose(const PoolSpec& spec, Result<std::vector<Offer>> offers) const;
  void take(Offer offer) { offer_ = std::move(offer); }
  // The region of the offer cannot give the machines. Nothing: other regions are asked; else: why
  // opening fails.
  std::optional<Error> refuse(Error why);
  // Why opening fails: what all regions said, when some have refused, else `why`.
  Error explain(Error why) const;

  void on_prepared(Cluster cluster);
  // What was prepared is removed, to go to another region ...
  void move_out() { moving_ = true; }
  // ... or, at the end or on the way, it was not.
  void on_moved_out(const Status& removed);

  const Offer& offer() const { return offer_; }
  const Cluster& cluster() const { return cluster_; }
  bool is_prepared() const { return prepared_; }
  bool is_moving_out() const { return moving_; }
  // The port that the nodes' frameworks meet at.
  int head_port() const { return head_port_; }
  // The region, when it is not the one that was asked for.
  std::optional<RegionAutoSelected> other_region(const PoolSpec& spec) const;

 private:
  Offer offer_;
  Cluster cluster_;
  bool prepared_ = false;
  bool moving_ = false;
  int head_port_ = 29500;                                // unless the cluster has another
  std::vector<std::pair<std::string, Error>> refusals_;  // regions without machines, their words
};

}  // namespace skyward::engine
