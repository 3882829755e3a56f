#include "skyward/spec/event.h"

#include <array>
#include <type_traits>

namespace skyward {

namespace {

// In the order of the variant's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<Event>> kNames = {
    "PoolStarted",
    "InfraCreating",
    "InfraCreated",
    "RegionAutoSelected",
    "InstanceLaunching",
    "InstanceProvisioned",
    "ProvisioningCompleted",
    "BootstrapStarting",
    "BootstrapProgress",
    "BootstrapCompleted",
    "TaskPoolInitCompleted",
    "ClusterSetupCompleted",
    "Metrics",
    "LogLine",
    "TaskStarted",
    "TaskFinished",
    "TaskFailed",
    "PoolStopping",
    "InstanceStopping",
    "InstancePreempted",
    "InstanceReplaced",
    "CostUpdate",
    "BudgetWarning",
    "CostFinal",
    "PoolStopped",
    "Notice",
    "Error",
};

}  // namespace

std::string_view event_name(const Event& event) { return kNames[event.index()]; }

}  // namespace skyward
