#pragma once

// All that happens to a pool, as values; the twin of skyward.events. Order: docs/guide/events.md.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace skyward {

struct PoolStarted {
  bool operator==(const PoolStarted&) const = default;
};  // ready for work
struct InfraCreating {
  std::string pool{};  // its id, as the program `skyward` takes it
  bool operator==(const InfraCreating&) const = default;
};
struct InfraCreated {
  std::string region{};
  bool operator==(const InfraCreated&) const = default;
};
struct RegionAutoSelected {
  std::string requested_region{};
  std::string selected_region{};
  std::string instance_type{};
  std::string provider{};
  bool operator==(const RegionAutoSelected&) const = default;
};
struct InstanceLaunching {
  int count = 0;
  std::string instance_type{};
  std::string provider{};
  bool operator==(const InstanceLaunching&) const = default;
};
struct InstanceProvisioned {
  std::string instance_id{};
  int node = 0;
  bool spot = false;
  std::string provider{};
  std::optional<std::string> ip{};
  std::optional<std::string> instance_type{};
  std::optional<double> price_on_demand{};  // dollars an hour
  std::optional<double> price_spot{};       // dollars an hour
  std::optional<int> billing_increment_minutes{};
  bool operator==(const InstanceProvisioned&) const = default;
};
struct ProvisioningCompleted {
  int spot = 0;
  int on_demand = 0;
  std::string provider{};
  std::string region{};
  std::vector<std::string> instances{};
  bool operator==(const ProvisioningCompleted&) const = default;
};
struct BootstrapStarting {
  std::string instance_id{};
  bool operator==(const BootstrapStarting&) const = default;
};
struct BootstrapProgress {
  std::string instance_id{};
  std::string step{};  // uv, apt, deps, volumes, skyward, server
  bool operator==(const BootstrapProgress&) const = default;
};
// The node is ready. What that took, in seconds:
struct BootstrapCompleted {
  std::string instance_id{};
  double connect_seconds = 0;      // reach it
  double agent_seconds = 0;        // bring the agent and its files, start it; 0: part of the above
  double environment_seconds = 0;  // the image
  double workers_seconds = 0;      // from there to the last worker's greeting
  bool operator==(const BootstrapCompleted&) const = default;
};
struct TaskPoolInitCompleted {
  int tunnels = 0;      // connections to agents
  int connections = 0;  // slots behind them
  double duration_seconds = 0;
  bool operator==(const TaskPoolInitCompleted&) const = default;
};
struct ClusterSetupCompleted {
  int instance_count = 0;
  double duration_seconds = 0;
  bool operator==(const ClusterSetupCompleted&) const = default;
};
// Memory in MiB; GPU fields are empty without a GPU.
struct Metrics {
  std::string instance_id{};
  int node = 0;
  double cpu_percent = 0;
  double memory_percent = 0;
  double memory_used_mb = 0;
  double memory_total_mb = 0;
  std::optional<double> gpu_utilization{};
  std::optional<double> gpu_memory_used_mb{};
  std::optional<double> gpu_memory_total_mb{};
  std::optional<double> gpu_temperature{};
  bool operator==(const Metrics&) const = default;
};
struct LogLine {
  int node = 0;
  std::string instance_id{};
  std::string line{};    // without its newline
  double timestamp = 0;  // seconds since 1970
  int worker = 0;
  std::uint64_t task = 0;  // 0: written while no task ran
  std::string stream{};    // "stdout" or "stderr"
  bool operator==(const LogLine&) const = default;
};
struct PoolStopping {
  bool operator==(const PoolStopping&) const = default;
};
struct InstanceStopping {
  std::string instance_id{};
  bool operator==(const InstanceStopping&) const = default;
};
// The cloud takes the machine of a node back. The node gets no new tasks, and another machine.
struct InstancePreempted {
  std::string instance_id{};
  int node = 0;
  std::string reason{};
  double seconds_left = 0;
  bool operator==(const InstancePreempted&) const = default;
};
struct InstanceReplaced {
  std::string old_instance_id{};
  std::string new_instance_id{};
  int node = 0;
  int attempt = 0;
  bool operator==(const InstanceReplaced&) const = default;
};
struct CostUpdate {
  double elapsed_seconds = 0;
  double accumulated_cost = 0;  // dollars
  double hourly_rate = 0;       // dollars an hour
  int spot_count = 0;
  int ondemand_count = 0;
  bool operator==(const CostUpdate&) const = default;
};
// Money is getting short: in so many seconds a pool that has a budget begins no more tasks, and
// soon after that it stops.
struct BudgetWarning {
  double spent = 0;        // dollars
  double budget = 0;       // dollars
  double hourly_rate = 0;  // dollars an hour
  double seconds_left = 0;
  bool operator==(const BudgetWarning&) const = default;
};
// The bill, once the last machine is gone. The four parts add up to the total.
struct CostFinal {
  double total_cost = 0;  // dollars
  double total_seconds = 0;
  double hourly_rate = 0;  // at most, at a time
  int spot_count = 0;      // machines that there were
  int ondemand_count = 0;
  double savings_vs_ondemand = 0;
  double setup_cost = 0;   // from launch to ready
  double useful_cost = 0;  // while tasks ran
  double idle_cost = 0;
  double lost_cost = 0;  // work that was lost with its machine
  bool operator==(const CostFinal&) const = default;
};
// What one node did, for the receipt at the end.
struct NodeReceipt {
  int node = 0;
  std::string instance_id{};
  std::uint64_t tasks = 0;
  std::uint64_t failed = 0;
  double busy_seconds = 0;  // time inside the user's functions, over all slots
  double up_seconds = 0;    // from ready to the end
  double cost = 0;          // dollars, of all machines that stood there
  bool operator==(const NodeReceipt&) const = default;
};
// The last event of a pool: what ran where, how long.
struct PoolStopped {
  std::string pool{};
  double setup_seconds = 0;  // from open to ready
  double total_seconds = 0;
  std::vector<NodeReceipt> nodes{};
  double first_call_seconds = 0;  // from the first call to its answer; 0 without one
  bool operator==(const PoolStopped&) const = default;
};
// Something failed or deserves attention; the pool may go on.
struct ErrorEvent {
  std::string message{};
  std::optional<std::string> instance_id{};
  bool operator==(const ErrorEvent&) const = default;
};

using Event =
    std::variant<PoolStarted, InfraCreating, InfraCreated, RegionAutoSelected, InstanceLaunching,
                 InstanceProvisioned, ProvisioningCompleted, BootstrapStarting, BootstrapProgress,
                 BootstrapCompleted, TaskPoolInitCompleted, ClusterSetupCompleted, Metrics, LogLine,
                 PoolStopping, InstanceStopping, InstancePreempted, InstanceReplaced, CostUpdate,
                 BudgetWarning, CostFinal, PoolStopped, ErrorEvent>;

std::string_view event_name(const Event& event);  // as users see it: "LogLine", "Error"

}  // namespace skyward
