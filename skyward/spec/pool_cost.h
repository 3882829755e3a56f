#pragma once

// What a pool has cost until now, for people: in dollars.

namespace skyward {

// The four parts add up to the total.
struct PoolCost {
  double total = 0;
  double hourly = 0;  // of the machines that are there
  double setup = 0;   // from the request to the node being ready
  double useful = 0;  // while tasks ran
  double idle = 0;
  double lost = 0;  // work that was lost with its machine

  bool operator==(const PoolCost&) const = default;
};

}  // namespace skyward
