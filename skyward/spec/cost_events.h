#pragma once

// The cost of a pool as events: reads every other event of the pool in order, and says which
// CostUpdate or CostFinal follows it. Pure: the time is an argument.
//
// The clock of a machine runs from its launch until another one has taken its place, or until its
// pool has ended with the cloud's word that everything is gone. Machines whose price nobody knows
// are not counted.

#include <map>
#include <optional>
#include <string>

#include "skyward/base/time.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/event.h"

namespace skyward {

class CostEvents {
 public:
  // What comes after `event`, if anything: a CostUpdate after Metrics, CostFinal before
  // PoolStopped. Pools whose machines cost nothing have neither.
  std::optional<Event> on_event(const Event& event, Time now);

  // When the cost will have reached so many dollars if nothing changes; kNever if it will not.
  Time reaches(double dollars, Time now) const;
  CostSplit split(Time now) const { return book_.split(now); }

 private:
  void on_provisioned(const InstanceProvisioned& event, Time now);
  CostUpdate update(Time now) const;
  CostFinal final_cost(Time now) const;

  CostBook book_;
  std::optional<Time> launching_;
  std::map<std::string, bool> spot_;  // of all machines that cost something
  double highest_rate_ = 0;
};

}  // namespace skyward
