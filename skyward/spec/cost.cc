#include "skyward/spec/cost.h"

#include <algorithm>
#include <cmath>

namespace skyward {

namespace {

constexpr Duration kHour = std::chrono::hours(1);

// hourly · time / 1 h, rounded up, without overflow for any price below a million dollars an hour.
MicroDollars price_of(MicroDollars hourly, Duration time) {
  __extension__ using Wide = __int128;
  const Wide product = static_cast<Wide>(hourly) * time.count();
  return static_cast<MicroDollars>((product + kHour.count() - 1) / kHour.count());
}

MicroDollars share_of(MicroDollars total, Duration part, Duration whole) {
  if (whole <= Duration::zero()) return 0;
  __extension__ using Wide = __int128;
  return static_cast<MicroDollars>(static_cast<Wide>(total) * part.count() / whole.count());
}

}  // namespace

MicroDollars to_micro_dollars(double dollars) { return std::llround(dollars * 1e6); }
double to_dollars(MicroDollars amount) { return static_cast<double>(amount) * 1e-6; }

void CostBook::on_launched(const std::string& instance, Time now,
                           std::optional<MachinePrice> price) {
  const auto [place, fresh] = machines_.try_emplace(instance);
  if (!fresh) return;
  Machine& machine = place->second;
  machine.launched = now;
  machine.priced = price.has_value();
  machine.prices.push_back({.begin = now, .hourly = price ? price->hourly : 0});
  if (price) {
    machine.on_demand = price->on_demand_hourly;
    machine.spot = price->spot;
  }
}

void CostBook::on_price(const std::string& instance, Time now, MicroDollars hourly) {
  const auto found = machines_.find(instance);
  if (found == machines_.end() || found->second.gone) return;
  std::vector<Segment>& prices = found->second.prices;
  if (prices.back().hourly == hourly) return;
  prices.push_back({.begin = std::max(now, prices.back().begin), .hourly = hourly});
  found->second.priced = true;
}

void CostBook::on_ready(const std::string& instance, Time now) {
  const auto found = machines_.find(instance);
  if (found != machines_.end() && !found->second.ready) found->second.ready = now;
}

void CostBook::on_tasks(const std::string& instance, Time now, int running) {
  const auto found = machines_.find(instance);
  if (found == machines_.end() || found->second.gone) return;
  Machine& machine = found->second;
  if (machine.running > 0) machine.busy += now - machine.running_since;
  machine.running = running;
  machine.running_since = now;
}

void CostBook::on_preempted(const std::string& instance) {
  const auto found = machines_.find(instance);
  if (found != machines_.end()) found->second.preempted = true;
}

void CostBook::on_gone(const std::string& instance, Time now) {
  on_tasks(instance, now, 0);
  const auto found = machines_.find(instance);
  if (found != machines_.end() && !found->second.gone) found->second.gone = now;
}

Duration CostBook::billed(const Machine& machine, Time now) const {
  const Duration lived = std::max(machine.gone.value_or(now) - machine.launched, Duration::zero());
  const auto quanta = (lived.count() + rules_.quantum.count() - 1) / rules_.quantum.count();
  return std::max(rules_.quantum * quanta, rules_.minimum);
}

// Each price holds from its segment's begin to the next one's, the last one to the end that is
// billed.
MicroDollars CostBook::cost(const Machine& machine, Time now) const {
  const Time end = machine.launched + billed(machine, now);
  MicroDollars total = 0;
  for (std::size_t i = 0; i < machine.prices.size(); ++i) {
    const Time until = i + 1 < machine.prices.size() ? machine.prices[i + 1].begin : end;
    const Duration time = std::min(until, end) - machine.prices[i].begin;
    if (time > Duration::zero()) total += price_of(machine.prices[i].hourly, time);
  }
  return total;
}

CostNow CostBook::now(Time now) const {
  CostNow result;
  Time first = kNever;
  Time last{};
  for (const auto& [name, machine] : machines_) {
    const MicroDollars cost = this->cost(machine, now);
    first = std::min(first, machine.launched);
    last = std::max(last, machine.gone.value_or(now));
    result.total += cost;
    result.complete = result.complete && machine.priced;
    result.on_demand +=
        machine.on_demand ? price_of(*machine.on_demand, billed(machine, now)) : cost;
    if (machine.gone) continue;
    result.hourly += machine.prices.back().hourly;
    (machine.spot ? result.spot_count : result.on_demand_count) += 1;
  }
  if (first != kNever) result.elapsed = std::max(last - first, Duration::zero());
  return result;
}

CostSplit CostBook::split(Time now) const {
  CostSplit result;
  for (const auto& [name, machine] : machines_) {
    const MicroDollars cost = this->cost(machine, now);
    const Time end = machine.gone.value_or(now);
    const Duration whole = billed(machine, now);
    const Duration setup = std::min(machine.ready.value_or(end), end) - machine.launched;
    Duration busy = machine.busy;
    if (machine.running > 0) busy += end - machine.running_since;
    result.total += cost;
    const MicroDollars setup_cost = machine.ready ? share_of(cost, setup, whole) : cost;
    result.setup += setup_cost;
    const MicroDollars busy_cost = std::min(share_of(cost, busy, whole), cost - setup_cost);
    (machine.preempted ? result.lost : result.useful) += busy_cost;
    result.idle += cost - setup_cost - busy_cost;
  }
  return result;
}

Time CostBook::reaches(MicroDollars limit, Time now) const {
  const auto total_at = [&](Duration ahead) { return this->now(now + ahead).total; };
  constexpr Duration kFar = std::chrono::hours(24 * 365);
  if (total_at({}) >= limit) return now;
  if (this->now(now).hourly <= 0 || total_at(kFar) < limit) return kNever;
  Duration low{};
  Duration high = kFar;
  while (high - low > std::chrono::milliseconds(1)) {
    const Duration middle = low + (high - low) / 2;
    (total_at(middle) >= limit ? high : low) = middle;
  }
  return now + high;
}

}  // namespace skyward
