#pragma once

// What the simulated cloud charges, computed in another way than the engine does
// (skyward/spec/cost.h): in small steps through each machine's life.

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/id.h"

namespace skyward::sim {

class Bill {
 public:
  explicit Bill(BillingRules rules) : rules_(rules) {}

  void begin(const InstanceId& id, Time now, double hourly);
  void set_price(const InstanceId& id, Time now, double hourly);
  // The first end counts; it may be a preemption.
  void end(const InstanceId& id, Time now, bool taken_back = false);
  bool ended(const InstanceId& id) const { return lives_.at(id).ended.has_value(); }

  // The charges that it reports when asked.
  void tell(const InstanceId& id, Time now, std::vector<Charge>& charges) const;
  // Of machines that have ended: all, or one.
  double dollars() const;
  double dollars(const InstanceId& id) const { return dollars_of(lives_.at(id)); }

 private:
  struct Life {
    Time began{};
    std::optional<Time> ended{};
    bool taken_back = false;
    std::vector<std::pair<Time, double>> prices{};
  };

  double dollars_of(const Life& life) const;

  BillingRules rules_;
  std::map<InstanceId, Life> lives_;
};

}  // namespace skyward::sim
