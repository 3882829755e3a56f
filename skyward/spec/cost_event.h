#pragma once

// Events about money, and what a pool reports at its end; see event.h for what all events share.

#include <cstdint>
#include <string>
#include <vector>

namespace skyward {

struct CostUpdate {
  double elapsed_seconds = 0;
  double accumulated_cost = 0;  // dollars
  double hourly_rate = 0;       // dollars an hour
  int spot_count = 0;
  int ondemand_count = 0;
  std::string pool{};
  bool operator==(const CostUpdate&) const = default;
};

// The budget is nearly spent: in `seconds_left`, the pool stops starting tasks, and soon afterwards
// it stops altogether.
struct BudgetWarning {
  double spent = 0;        // dollars
  double budget = 0;       // dollars
  double hourly_rate = 0;  // dollars an hour
  double seconds_left = 0;
  std::string pool{};
  bool operator==(const BudgetWarning&) const = default;
};

// The bill, once the last machine is gone. The four parts add up to the total.
struct CostFinal {
  double total_cost = 0;  // dollars
  double total_seconds = 0;
  double hourly_rate = 0;  // the highest at any time
  int spot_count = 0;      // machines launched in all
  int ondemand_count = 0;
  double savings_vs_ondemand = 0;
  double setup_cost = 0;   // from launch to ready
  double useful_cost = 0;  // while tasks ran
  double idle_cost = 0;
  double lost_cost = 0;  // work that was lost with its machine
  std::string pool{};
  bool operator==(const CostFinal&) const = default;
};

// What one node did, for the receipt at the end.
struct NodeReceipt {
  int node = 0;
  std::string instance_id{};
  std::uint64_t tasks = 0;
  std::uint64_t failed = 0;  // of these; not the cancelled ones, unless the pool's end cut them
  double busy_seconds = 0;   // time inside the user's functions, over all slots
  double up_seconds = 0;     // from ready to the end
  double cost = 0;           // dollars, for all machines that this node had
  bool operator==(const NodeReceipt&) const = default;
};

// The last event of a pool: what ran where, how long.
struct PoolStopped {
  std::string pool{};
  double setup_seconds = 0;  // from open to ready
  double total_seconds = 0;
  std::vector<NodeReceipt> nodes{};
  double first_call_seconds = 0;      // from the first call to its answer; 0 without one
  double first_call_run_seconds = 0;  // of that, inside the function
  bool operator==(const PoolStopped&) const = default;
};

}  // namespace skyward
