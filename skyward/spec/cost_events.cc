#include "skyward/spec/cost_events.h"

#include <algorithm>
#include <variant>

namespace skyward {

void CostEvents::on_provisioned(const InstanceProvisioned& event, Time now) {
  const std::optional<double> dollars =
      event.spot && event.price_spot ? event.price_spot : event.price_on_demand;
  if (!dollars || *dollars <= 0) return;  // one's own, or nobody knows
  MachinePrice price{.hourly = to_micro_dollars(*dollars), .spot = event.spot};
  if (event.price_on_demand) price.on_demand_hourly = to_micro_dollars(*event.price_on_demand);
  // A machine that takes the place of another is launched without a word before.
  book_.on_launched(event.instance_id, launching_.value_or(now), price);
  spot_[event.instance_id] = event.spot;
  highest_rate_ = std::max(highest_rate_, to_dollars(book_.now(now).hourly));
}

CostUpdate CostEvents::update(Time now) const {
  const CostNow cost = book_.now(now);
  return {.elapsed_seconds = seconds(cost.elapsed),
          .accumulated_cost = to_dollars(cost.total),
          .hourly_rate = to_dollars(cost.hourly),
          .spot_count = cost.spot_count,
          .ondemand_count = cost.on_demand_count};
}

CostFinal CostEvents::final_cost(Time now) const {
  const CostNow cost = book_.now(now);
  CostFinal out{.total_cost = to_dollars(cost.total),
                .total_seconds = seconds(cost.elapsed),
                .hourly_rate = highest_rate_,
                .savings_vs_ondemand = to_dollars(cost.on_demand - cost.total)};
  for (const auto& [id, spot] : spot_) ++(spot ? out.spot_count : out.ondemand_count);
  return out;
}

std::optional<Event> CostEvents::on_event(const Event& event, Time now) {
  if (std::holds_alternative<InstanceLaunching>(event)) {
    launching_ = now;
  } else if (const auto* bought = std::get_if<InstanceProvisioned>(&event)) {
    on_provisioned(*bought, now);
  } else if (std::holds_alternative<ProvisioningCompleted>(event)) {
    launching_.reset();
  } else if (const auto* ready = std::get_if<BootstrapCompleted>(&event)) {
    if (spot_.contains(ready->instance_id)) book_.on_ready(ready->instance_id, now);
  } else if (const auto* replaced = std::get_if<InstanceReplaced>(&event)) {
    if (spot_.contains(replaced->old_instance_id)) book_.on_gone(replaced->old_instance_id, now);
  } else if (const auto* preempted = std::get_if<InstancePreempted>(&event)) {
    if (spot_.contains(preempted->instance_id)) book_.on_preempted(preempted->instance_id);
  } else if (std::holds_alternative<Metrics>(event)) {
    if (!spot_.empty()) return update(now);
  } else if (std::holds_alternative<PoolStopped>(event)) {
    for (const auto& [id, spot] : spot_) book_.on_gone(id, now);
    if (!spot_.empty()) return final_cost(now);
  }
  return std::nullopt;
}

Time CostEvents::reaches(double dollars, Time now) const {
  return book_.reaches(to_micro_dollars(dollars), now);
}

}  // namespace skyward
