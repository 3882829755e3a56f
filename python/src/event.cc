// skyward/spec/event.h.

#include "event.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace skyward::python {
namespace {

// The fields of each event, in declaration order.
template <typename E>
constexpr auto kFields = std::tuple<>{};
template <>
constexpr auto kFields<InfraCreating> = std::tuple{&InfraCreating::pool};
template <>
constexpr auto kFields<InfraCreated> = std::tuple{&InfraCreated::region};
template <>
constexpr auto kFields<RegionAutoSelected> =
    std::tuple{&RegionAutoSelected::requested_region, &RegionAutoSelected::selected_region,
               &RegionAutoSelected::instance_type, &RegionAutoSelected::provider};
template <>
constexpr auto kFields<InstanceLaunching> = std::tuple{
    &InstanceLaunching::count, &InstanceLaunching::instance_type, &InstanceLaunching::provider};
template <>
constexpr auto kFields<InstanceProvisioned> =
    std::tuple{&InstanceProvisioned::instance_id,
               &InstanceProvisioned::node,
               &InstanceProvisioned::spot,
               &InstanceProvisioned::provider,
               &InstanceProvisioned::ip,
               &InstanceProvisioned::instance_type,
               &InstanceProvisioned::price_on_demand,
               &InstanceProvisioned::price_spot,
               &InstanceProvisioned::billing_increment_minutes};
template <>
constexpr auto kFields<ProvisioningCompleted> =
    std::tuple{&ProvisioningCompleted::spot, &ProvisioningCompleted::on_demand,
               &ProvisioningCompleted::provider, &ProvisioningCompleted::region,
               &ProvisioningCompleted::instances};
template <>
constexpr auto kFields<BootstrapStarting> = std::tuple{&BootstrapStarting::instance_id};
template <>
constexpr auto kFields<BootstrapProgress> =
    std::tuple{&BootstrapProgress::instance_id, &BootstrapProgress::step};
template <>
constexpr auto kFields<BootstrapCompleted> =
    std::tuple{&BootstrapCompleted::instance_id, &BootstrapCompleted::connect_seconds,
               &BootstrapCompleted::agent_seconds, &BootstrapCompleted::environment_seconds,
               &BootstrapCompleted::workers_seconds};
template <>
constexpr auto kFields<TaskPoolInitCompleted> =
    std::tuple{&TaskPoolInitCompleted::tunnels, &TaskPoolInitCompleted::connections,
               &TaskPoolInitCompleted::duration_seconds};
template <>
constexpr auto kFields<ClusterSetupCompleted> =
    std::tuple{&ClusterSetupCompleted::instance_count, &ClusterSetupCompleted::duration_seconds};
template <>
constexpr auto kFields<Metrics> = std::tuple{&Metrics::instance_id,
                                             &Metrics::node,
                                             &Metrics::cpu_percent,
                                             &Metrics::memory_percent,
                                             &Metrics::memory_used_mb,
                                             &Metrics::memory_total_mb,
                                             &Metrics::gpu_utilization,
                                             &Metrics::gpu_memory_used_mb,
                                             &Metrics::gpu_memory_total_mb,
                                             &Metrics::gpu_temperature,
                                             &Metrics::timestamp};
template <>
constexpr auto kFields<LogLine> =
    std::tuple{&LogLine::node,   &LogLine::instance_id, &LogLine::line,  &LogLine::timestamp,
               &LogLine::worker, &LogLine::task,        &LogLine::stream};
template <>
constexpr auto kFields<TaskStarted> =
    std::tuple{&TaskStarted::task, &TaskStarted::name, &TaskStarted::node, &TaskStarted::timestamp};
template <>
constexpr auto kFields<TaskFinished> =
    std::tuple{&TaskFinished::task,   &TaskFinished::name,        &TaskFinished::node,
               &TaskFinished::worker, &TaskFinished::run_seconds, &TaskFinished::timestamp};
template <>
constexpr auto kFields<TaskFailed> = std::tuple{
    &TaskFailed::task,        &TaskFailed::name,   &TaskFailed::node,     &TaskFailed::worker,
    &TaskFailed::run_seconds, &TaskFailed::reason, &TaskFailed::timestamp};
template <>
constexpr auto kFields<InstanceStopping> = std::tuple{&InstanceStopping::instance_id};
template <>
constexpr auto kFields<InstancePreempted> =
    std::tuple{&InstancePreempted::instance_id, &InstancePreempted::node,
               &InstancePreempted::reason, &InstancePreempted::seconds_left};
template <>
constexpr auto kFields<InstanceReplaced> =
    std::tuple{&InstanceReplaced::old_instance_id, &InstanceReplaced::new_instance_id,
               &InstanceReplaced::node, &InstanceReplaced::attempt};
template <>
constexpr auto kFields<CostUpdate> =
    std::tuple{&CostUpdate::elapsed_seconds, &CostUpdate::accumulated_cost,
               &CostUpdate::hourly_rate, &CostUpdate::spot_count, &CostUpdate::ondemand_count};
template <>
constexpr auto kFields<BudgetWarning> =
    std::tuple{&BudgetWarning::spent, &BudgetWarning::budget, &BudgetWarning::hourly_rate,
               &BudgetWarning::seconds_left};
template <>
constexpr auto kFields<CostFinal> =
    std::tuple{&CostFinal::total_cost, &CostFinal::total_seconds,  &CostFinal::hourly_rate,
               &CostFinal::spot_count, &CostFinal::ondemand_count, &CostFinal::savings_vs_ondemand,
               &CostFinal::setup_cost, &CostFinal::useful_cost,    &CostFinal::idle_cost,
               &CostFinal::lost_cost};
template <>
constexpr auto kFields<NodeReceipt> =
    std::tuple{&NodeReceipt::node,   &NodeReceipt::instance_id,  &NodeReceipt::tasks,
               &NodeReceipt::failed, &NodeReceipt::busy_seconds, &NodeReceipt::up_seconds,
               &NodeReceipt::cost};
template <>
constexpr auto kFields<PoolStopped> = std::tuple{
    &PoolStopped::pool,  &PoolStopped::setup_seconds,      &PoolStopped::total_seconds,
    &PoolStopped::nodes, &PoolStopped::first_call_seconds, &PoolStopped::first_call_run_seconds};
template <>
constexpr auto kFields<Notice> = std::tuple{&Notice::message, &Notice::level, &Notice::instance_id};
template <>
constexpr auto kFields<ErrorEvent> = std::tuple{&ErrorEvent::message, &ErrorEvent::instance_id};

template <typename E>
nb::tuple fields_of(const E& event);

nb::object convert(const std::vector<NodeReceipt>& receipts) {
  nb::list list;
  for (const NodeReceipt& receipt : receipts) list.append(fields_of(receipt));
  return list;
}
template <typename T>
nb::object convert(const T& value) {
  return nb::cast(value);
}

template <typename E>
nb::tuple fields_of(const E& event) {
  return std::apply([&](auto... field) { return nb::make_tuple(convert(event.*field)...); },
                    kFields<E>);
}

template <typename E>
E make(const nb::tuple& fields);

void assign(std::vector<NodeReceipt>& receipts, nb::handle value) {
  for (nb::handle item : value) receipts.push_back(make<NodeReceipt>(nb::cast<nb::tuple>(item)));
}
template <typename T>
void assign(T& target, nb::handle value) {
  target = nb::cast<T>(value);
}

template <typename E>
E make(const nb::tuple& fields) {
  if (nb::len(fields) != std::tuple_size_v<std::remove_cvref_t<decltype(kFields<E>)>>) {
    throw nb::value_error("an event has another number of fields than its class here");
  }
  E event;
  std::size_t index = 0;
  std::apply([&](auto... field) { (assign(event.*field, fields[index++]), ...); }, kFields<E>);
  return event;
}

template <std::size_t I = 0>
Event make_named(const std::string& name, const nb::tuple& fields) {
  if constexpr (I < std::variant_size_v<Event>) {
    using E = std::variant_alternative_t<I, Event>;
    if (event_name(Event(E{})) == name) return make<E>(fields);
    return make_named<I + 1>(name, fields);
  } else {
    throw nb::value_error(("no event is called " + name).c_str());
  }
}

}  // namespace

nb::tuple to_python(const Event& event) {
  return std::visit(
      [&](const auto& value) { return nb::make_tuple(event_name(event), fields_of(value)); },
      event);
}

Event from_python(const std::string& name, const nb::tuple& fields) {
  return make_named(name, fields);
}

void bind_events(nb::module_& module) {
  module.def(
      "round_trip",
      [](const std::string& name, const nb::tuple& fields) {
        return to_python(from_python(name, fields));
      },
      nb::arg("name"), nb::arg("fields"),
      nb::sig("def round_trip(name: str, fields: tuple[object, ...]) -> tuple[str, tuple[object, "
              "...]]"),
      "An event through the engine's own type and back; holds the two definitions together in a "
      "test.");
}

}  // namespace skyward::python
