#pragma once

// Events of machines and nodes, as values; see event.h for what all events share.

#include <optional>
#include <string>
#include <vector>

namespace skyward {

struct InfraCreating {
  std::string pool{};  // its id, as the program `skyward` takes it
  bool operator==(const InfraCreating&) const = default;
};

struct InfraCreated {
  std::string region{};
  std::string pool{};
  std::string
      unattended{};  // what ends its machines while this computer is off, if that is unusual
  bool operator==(const InfraCreated&) const = default;
};

struct RegionAutoSelected {
  std::string requested_region{};
  std::string selected_region{};
  std::string instance_type{};
  std::string provider{};
  std::string pool{};
  bool operator==(const RegionAutoSelected&) const = default;
};

struct InstanceLaunching {
  int count = 0;
  std::string instance_type{};
  std::string provider{};
  std::string pool{};
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
  std::string pool{};
  bool operator==(const InstanceProvisioned&) const = default;
};

struct ProvisioningCompleted {
  int spot = 0;
  int on_demand = 0;
  std::string provider{};
  std::string region{};
  std::vector<std::string> instances{};
  std::string pool{};
  bool operator==(const ProvisioningCompleted&) const = default;
};

// The machine has been reached.
struct BootstrapStarting {
  std::string instance_id{};
  std::string pool{};
  bool operator==(const BootstrapStarting&) const = default;
};

struct BootstrapProgress {
  std::string instance_id{};
  std::string step{};  // uv, apt, deps, volumes, skyward, server
  std::string pool{};
  bool operator==(const BootstrapProgress&) const = default;
};

// The node is ready. What that took, in seconds:
struct BootstrapCompleted {
  std::string instance_id{};
  double connect_seconds = 0;      // reach it
  double agent_seconds = 0;        // bring the agent and its files, start it; 0: part of the above
  double environment_seconds = 0;  // the image
  double workers_seconds = 0;      // from there to the last worker's greeting
  std::string pool{};
  bool operator==(const BootstrapCompleted&) const = default;
};

struct TaskPoolInitCompleted {
  int tunnels = 0;      // connections to agents
  int connections = 0;  // slots behind them
  double duration_seconds = 0;
  std::string pool{};
  bool operator==(const TaskPoolInitCompleted&) const = default;
};

struct ClusterSetupCompleted {
  int instance_count = 0;
  double duration_seconds = 0;
  std::string pool{};
  bool operator==(const ClusterSetupCompleted&) const = default;
};

// Memory in MiB, of the container or job if it has a limit; CPU of the whole machine. GPU fields
// combine all GPUs (mean utilization, total memory, highest temperature), and are empty without an
// NVIDIA GPU.
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
  double timestamp = 0;  // seconds since 1970
  std::string pool{};
  bool operator==(const Metrics&) const = default;
};

struct InstanceStopping {
  std::string instance_id{};
  std::string pool{};
  bool operator==(const InstanceStopping&) const = default;
};

// The cloud preempts a node's machine. The node gets no new tasks until it has another machine.
struct InstancePreempted {
  std::string instance_id{};
  int node = 0;
  std::string reason{};
  double seconds_left = 0;
  std::string pool{};
  bool operator==(const InstancePreempted&) const = default;
};

struct InstanceReplaced {
  std::string old_instance_id{};
  std::string new_instance_id{};
  int node = 0;
  int attempt = 0;
  std::string pool{};
  bool operator==(const InstanceReplaced&) const = default;
};

}  // namespace skyward
