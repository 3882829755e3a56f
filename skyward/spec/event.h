#pragma once

// All that happens to a pool, as values; the twin of skyward.events. Order: docs/guide/events.md.
// Each event has `pool`, the id of the pool that made it.
//
// A new event: its struct here or in *_event.h, the variant, its name in event.cc, its fields in
// python/src/event.cc, its line in display/display.cc; in python/skyward, its class and the union
// in events.py, and two lists in __init__.py; docs/guide/events.md; then run tools/parity.py.

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "skyward/spec/cost_event.h"
#include "skyward/spec/node_event.h"
#include "skyward/spec/task_event.h"

namespace skyward {

// Ready for work.
struct PoolStarted {
  std::string pool{};
  bool operator==(const PoolStarted&) const = default;
};

struct PoolStopping {
  std::string pool{};
  bool operator==(const PoolStopping&) const = default;
};

// Worth a line while the pool goes on; nothing has failed for good.
struct Notice {
  std::string message{};
  std::string level{"info"};  // or "warning"
  std::optional<std::string> instance_id{};
  std::string pool{};
  bool operator==(const Notice&) const = default;
};

// Something failed or deserves attention; the pool may go on.
struct ErrorEvent {
  std::string message{};
  std::optional<std::string> instance_id{};
  std::string pool{};
  bool operator==(const ErrorEvent&) const = default;
};

using Event =
    std::variant<PoolStarted, InfraCreating, InfraCreated, RegionAutoSelected, InstanceLaunching,
                 InstanceProvisioned, ProvisioningCompleted, BootstrapStarting, BootstrapProgress,
                 BootstrapCompleted, TaskPoolInitCompleted, ClusterSetupCompleted, Metrics, LogLine,
                 TaskStarted, TaskFinished, TaskFailed, PoolStopping, InstanceStopping,
                 InstancePreempted, InstanceReplaced, CostUpdate, BudgetWarning, CostFinal,
                 PoolStopped, Notice, ErrorEvent>;

std::string_view event_name(const Event& event);  // as users see it: "LogLine", "Error"

}  // namespace skyward
