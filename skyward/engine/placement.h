#pragma once

// Where the pool's machines come from: the chosen offer, its region, what was prepared there, and
// the regions without capacity. A part of the core: pure; core_place_test.cc shows its rules.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/event.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

// Whether the pool's budget covers its machines, if they are of this offer; why not.
using Covers = std::function<Status(const Offer&)>;

class Placement {
 public:
  // The first offer within the hourly limit and the budget, of a region that has not refused yet.
  Result<Offer> choose(const PoolSpec& spec, Result<std::vector<Offer>> offers,
                       const Covers& covers) const;
  void take(Offer offer) { offer_ = std::move(offer); }
  // The region of the offer has no capacity. Returns nothing if other regions are tried, else why
  // opening fails.
  std::optional<Error> refuse(Error why);
  // Why opening fails: the refusals of all regions if there are any, else `why`.
  Error explain(Error why) const;
  // ... and `why` as well, which has nothing to do with those.
  Error explain_with(Error why) const;

  void on_prepared(Cluster cluster);
  // What was prepared was removed, before trying another region ...
  void move_out() { moving_ = true; }
  // ... or could not be removed.
  void on_moved_out(const Status& removed);

  const Offer& offer() const { return offer_; }
  const Cluster& cluster() const { return cluster_; }
  bool is_prepared() const { return prepared_; }
  bool is_moving_out() const { return moving_; }
  // The port of the rendezvous of the nodes' frameworks.
  int head_port() const { return cluster_.head_port != 0 ? cluster_.head_port : kUsualHeadPort; }
  // The region, if it is not the one that was asked for.
  std::optional<RegionAutoSelected> other_region(const PoolSpec& spec) const;

 private:
  static constexpr int kUsualHeadPort = 29500;  // where the cluster has none of its own

  Offer offer_;
  Cluster cluster_;
  bool prepared_ = false;
  bool moving_ = false;
  std::vector<std::pair<std::string, Error>>
      refusals_;  // regions without capacity, and their errors
};

}  // namespace skyward::engine
