#include "skyward/spec/cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace skyward {

namespace {

constexpr Duration kHour = std::chrono::hours(1);
constexpr int kOfNoNode = -1;

// Without overflow for any price below a million dollars an hour.
__extension__ using Wide = __int128;

// hourly · time, added up over prices, in dollars: rounded up once.
MicroDollars rounded_up(Wide product) {
  return static_cast<MicroDollars>((product + kHour.count() - 1) / kHour.count());
}

MicroDollars price_of(MicroDollars hourly, Duration time) {
  return rounded_up(static_cast<Wide>(hourly) * time.count());
}

MicroDollars share_of(MicroDollars total, Duration part, Duration whole) {
  if (whole <= Duration::zero()) return 0;
  return static_cast<MicroDollars>(static_cast<Wide>(total) * part.count() / whole.count());
}

}  // namespace

MicroDollars to_micro_dollars(double dollars) { return std::llround(dollars * 1e6); }
double to_dollars(MicroDollars amount) { return static_cast<double>(amount) / 1e6; }

CostBook::Machine CostBook::make(int node, Time now, const std::optional<MachinePrice>& price) {
  Machine machine{.priced = price.has_value(), .node = node, .launched = now};
  machine.prices.push_back({.begin = now, .hourly = price ? price->hourly : 0});
  if (price) {
    machine.on_demand = price->on_demand_hourly;
    machine.spot = price->spot;
  }
  return machine;
}

void CostBook::on_asked(int node, Time now, int count, std::optional<MachinePrice> price) {
  asked_for_any_ = true;
  requests_[node] = {.machine = make(node, now, price), .count = count};
}

Time CostBook::on_answered(int node, Time now) {
  const auto found = requests_.find(node);
  if (found == requests_.end()) return now;
  const Time asked = found->second.machine.launched;
  requests_.erase(found);
  return asked;
}

void CostBook::on_launched(const std::string& instance, int node, Time now,
                           std::optional<MachinePrice> price) {
  const auto [place, fresh] = machines_.try_emplace(instance, make(node, now, price));
  if (!fresh) return;
  hourly_ += place->second.prices.back().hourly;
  highest_hourly_ = std::max(highest_hourly_, hourly_);
  costs_anything_ = costs_anything_ || hourly_ > 0;
}

void CostBook::set_price(Machine& machine, Time at, MicroDollars hourly) {
  Segment& last = machine.prices.back();
  const bool first = !std::exchange(machine.priced, true) ||
                     (at <= machine.launched && machine.prices.size() == 1);
  if (last.hourly == hourly || (!first && at <= last.begin)) return;  // it is known
  if (!machine.gone) hourly_ += hourly - last.hourly;
  highest_hourly_ = std::max(highest_hourly_, hourly_);
  costs_anything_ = costs_anything_ || hourly > 0;
  if (first) {
    last.hourly = hourly;
  } else {
    machine.prices.push_back({.begin = at, .hourly = hourly});
  }
}

void CostBook::set_gone(Machine& machine, Time at) {
  if (!machine.gone) hourly_ -= machine.prices.back().hourly;
  machine.gone = std::max(at, machine.launched);
}

void CostBook::on_ready(const std::string& instance, Time now) {
  const auto found = machines_.find(instance);
  if (found != machines_.end()) found->second.ready = now;
}

void CostBook::on_work(const std::string& instance, Duration useful, Duration lost) {
  const auto found = machines_.find(instance);
  if (found == machines_.end()) return;
  found->second.useful = useful;
  found->second.lost = lost;
}

void CostBook::on_gone(const std::string& instance, Time now) {
  const auto found = machines_.find(instance);
  if (found != machines_.end() && !found->second.gone) set_gone(found->second, now);
}

void CostBook::on_all_gone(Time now) {
  for (auto& [id, machine] : machines_) {
    if (!machine.gone) set_gone(machine, now);
  }
}

void CostBook::on_charges(std::span<const Charge> charges, Time now) {
  for (const Charge& charge : charges) {
    if (charge.failed_launch && charge.hourly) {
      on_launched(charge.instance, kOfNoNode, now - charge.since,
                  MachinePrice{.hourly = to_micro_dollars(*charge.hourly), .spot = charge.spot});
    }
    const auto found = machines_.find(charge.instance);
    if (found == machines_.end()) continue;
    Machine& machine = found->second;
    if (charge.began && !std::exchange(machine.began_told, true)) {
      machine.launched = now - *charge.began;
      machine.prices.front().begin = std::min(machine.prices.front().begin, machine.launched);
    }
    machine.taken_back = machine.taken_back || charge.taken_back;
    if (charge.hourly) set_price(machine, now - charge.since, to_micro_dollars(*charge.hourly));
    if (charge.ended && !std::exchange(machine.ended_told, true)) {
      set_gone(machine, now - *charge.ended);
    }
  }
  known_until_ = now;
}

bool CostBook::is_free_if_taken_back(const std::string& instance, Time at) const {
  const auto found = machines_.find(instance);
  return found != machines_.end() && at - found->second.launched < rules_.free_when_taken_back;
}

// What is not known to be free is counted.
bool CostBook::is_free(const Machine& machine) const {
  return machine.taken_back && machine.gone &&
         *machine.gone - machine.launched < rules_.free_when_taken_back;
}

Duration CostBook::billed(const Machine& machine, Time now) const {
  const Duration lived = std::max(machine.gone.value_or(now) - machine.launched, Duration::zero());
  const auto quanta = (lived.count() + rules_.quantum.count() - 1) / rules_.quantum.count();
  return std::max(rules_.quantum * quanta, rules_.minimum);
}

// Each price holds from its segment's begin to the next one's, the last one to the end that is
// billed; the worst one from the moment on at which nobody knows.
MicroDollars CostBook::cost_of_time(const Machine& machine, Time now, bool worst) const {
  if (is_free(machine)) return 0;
  const Time end = machine.launched + billed(machine, now);
  Wide total = 0;
  const auto add = [&](Time from, Time until, MicroDollars hourly) {
    const Duration time = std::min(until, end) - std::max(from, machine.launched);
    if (time > Duration::zero()) total += static_cast<Wide>(hourly) * time.count();
  };
  for (std::size_t i = 0; i + 1 < machine.prices.size(); ++i) {
    add(machine.prices[i].begin, machine.prices[i + 1].begin, machine.prices[i].hourly);
  }
  const Segment& last = machine.prices.back();
  if (!worst || !rules_.prices_change || !machine.spot) {
    add(last.begin, end, last.hourly);
    return rounded_up(total);
  }
  const Time known = std::clamp(known_until_, last.begin, std::max(last.begin, end));
  add(last.begin, known, last.hourly);
  add(known, end, std::max(last.hourly, machine.on_demand.value_or(0)));
  return rounded_up(total);
}

CostNow CostBook::now(Time now) const {
  CostNow result{.hourly = hourly_};
  Time first = kNever;
  Time last{};
  for (const auto& [name, machine] : machines_) {
    const MicroDollars cost = this->cost(machine, now);
    first = std::min(first, machine.launched);
    last = std::max(last, machine.gone.value_or(now));
    result.total += cost;
    result.complete = result.complete && machine.priced;
    result.on_demand +=
        machine.on_demand ? at_least(price_of(*machine.on_demand, billed(machine, now))) : cost;
    if (machine.gone) continue;
    (machine.spot ? result.spot_count : result.on_demand_count) += 1;
  }
  if (first != kNever) result.elapsed = std::max(last - first, Duration::zero());
  return result;
}

CostSplit CostBook::split(Time now) const {
  CostSplit result;
  for (const auto& [name, machine] : machines_) {
    const MicroDollars of_time = cost_of_time(machine, now);
    const MicroDollars cost = at_least(of_time);
    const Time end = machine.gone.value_or(now);
    const Duration whole = billed(machine, now);
    const Duration setup =
        std::max(std::min(machine.ready.value_or(end), end) - machine.launched, Duration::zero());
    MicroDollars left = cost;
    const auto take = [&](Duration time) {
      const MicroDollars part = std::min(share_of(of_time, time, whole), left);
      left -= part;
      return part;
    };
    result.total += cost;
    result.setup += take(machine.ready ? setup : whole);
    result.useful += take(machine.useful);
    result.lost += take(machine.lost);
    result.idle += left;
  }
  return result;
}

std::map<int, MicroDollars> CostBook::by_node(Time now) const {
  std::map<int, MicroDollars> out;
  for (const auto& [name, machine] : machines_) out[machine.node] += cost(machine, now);
  return out;
}

int CostBook::machines(bool spot) const {
  return static_cast<int>(std::ranges::count_if(
      machines_, [spot](const auto& entry) { return entry.second.spot == spot; }));
}

int CostBook::unpriced() const {
  return static_cast<int>(
      std::ranges::count_if(machines_, [](const auto& entry) { return !entry.second.priced; }));
}

std::vector<std::string> CostBook::open_bills() const {
  std::vector<std::string> out;
  for (const auto& [name, machine] : machines_) {
    if (!machine.ended_told) out.push_back(name);
  }
  return out;
}

bool CostBook::prices_may_change() const {
  return rules_.prices_change && std::ranges::any_of(machines_, [](const auto& entry) {
           return entry.second.spot && !entry.second.gone;
         });
}

Time CostBook::lasts_until(MicroDollars limit, Time now) const {
  MicroDollars paid = 0;
  std::vector<std::pair<const Machine*, int>> live;
  for (const auto& [name, machine] : machines_) {
    if (machine.gone) {
      paid += cost(machine, now);
    } else {
      live.emplace_back(&machine, 1);
    }
  }
  for (const auto& [node, request] : requests_) live.emplace_back(&request.machine, request.count);
  const auto suffices = [&](Duration ahead) {
    MicroDollars total = paid;
    for (const auto& [machine, count] : live) total += count * cost(*machine, now + ahead, true);
    return total <= limit;
  };
  constexpr Duration kFar = std::chrono::hours(24 * 365);
  if (!suffices({})) return now;
  if (suffices(kFar)) return kNever;
  Duration low{};
  Duration high = kFar;
  while (high - low > std::chrono::milliseconds(1)) {
    const Duration middle = low + (high - low) / 2;
    (suffices(middle) ? low : high) = middle;
  }
  return now + low;
}

std::vector<MicroDollars> round_parts(std::span<const MicroDollars> parts, MicroDollars unit) {
  MicroDollars sum = 0;
  std::vector<MicroDollars> out;
  std::vector<std::size_t> order(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i];
    out.push_back(parts[i] / unit);
    order[i] = i;
  }
  MicroDollars missing = (sum + unit / 2) / unit;
  for (const MicroDollars units : out) missing -= units;
  // Those that lose most by rounding down get the rest.
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return parts[i] % unit; });
  for (std::size_t i = 0; i < order.size() && missing > 0; ++i, --missing) ++out[order[i]];
  return out;
}

}  // namespace skyward
