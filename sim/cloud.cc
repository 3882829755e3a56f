#include "sim/cloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "skyward/base/check.h"

namespace skyward::sim {
namespace {

// Until a batch system notices that a job's first node is lost.
constexpr Duration kNoticed = std::chrono::minutes(5);

}  // namespace

SimulatedCloud::SimulatedCloud(Simulator& simulator, Journal& journal,
                               const StormParameters& parameters)
    : simulator_(simulator),
      journal_(journal),
      parameters_(parameters),
      bill_(parameters.money.billing),
      spot_price_(parameters.money.on_demand * 0.3) {
  if (const auto spare = parameters.returns.spare_hosts) {
    seats_.resize(static_cast<std::size_t>(parameters.nodes) + static_cast<std::size_t>(*spare));
  }
}

void SimulatedCloud::move_price() {
  simulator_.after(simulator_.random.about(parameters_.money.step_mean), [this] {
    if (torn_down_ || driver_killed_) {
      price_moves_ = false;
      return;
    }
    spot_price_ = parameters_.money.on_demand * (0.1 + 0.9 * simulator_.random.unit());
    simulator_.say("a spot machine costs ${:.4f} an hour", spot_price_);
    for (const auto& [id, sold] : sold_) bill_.set_price(id, simulator_.now(), spot_price_);
    move_price();
  });
}

void SimulatedCloud::add_verb(Verb verb) {
  SKYWARD_CHECK(!torn_down_, "a verb after teardown()");
  verbs_.push_back(std::move(verb));
  next_verb();
}

void SimulatedCloud::next_verb() {
  const auto next = queued_ ? std::ranges::find(verbs_, true, &Verb::urgent) : verbs_.begin();
  if (busy_ || next == verbs_.end()) return;
  busy_ = true;
  const Duration took =
      simulator_.random.between(parameters_.cloud.verb_min, parameters_.cloud.verb_max);
  simulator_.after(took, [this, work = std::move(next->work)]() mutable {
    busy_ = false;
    work();
    next_verb();
  });
  verbs_.erase(next);
}

void SimulatedCloud::list_offers(Answer<std::vector<Offer>> answer) {
  verb([this, answer = std::move(answer)] {
    if (simulator_.random.chance(parameters_.cloud.refuse)) {
      if (simulator_.random.chance(0.5)) return answer(std::vector<Offer>{});
      return answer(fail(ErrorKind::denied, "no offers for you"));
    }
    Offer offer;
    offer.instance_type = "virtual";
    // Asked again, it offers another region, or the one that has just refused.
    if (regions_ == 0 || simulator_.random.chance(0.8)) ++regions_;
    offer.region = fmt::format("region-{}", regions_);
    if (parameters_.money.on_demand > 0) offer.price_on_demand = parameters_.money.on_demand;
    if (parameters_.money.spot) offer.price_spot = spot_price_;
    answer(std::vector{offer});
  });
}

void SimulatedCloud::prepare(const Offer& offer, Answer<Cluster> answer) {
  SKYWARD_CHECK(offer.instance_type == "virtual" && prepared_ == torn_down_ && sold_.empty());
  prepared_ = torn_down_ = false;
  verb([this, region = offer.region, answer = std::move(answer)] {
    if (simulator_.random.chance(parameters_.cloud.refuse)) {
      return answer(fail(ErrorKind::denied, "cannot prepare"));
    }
    prepared_ = true;
    const bool moves = parameters_.money.spot && parameters_.money.step_mean > Duration{};
    if (moves && !std::exchange(price_moves_, true)) move_price();
    Cluster cluster;
    cluster.id = "virtual-" + region;
    cluster.region = region;
    answer(cluster);
  });
}

void SimulatedCloud::provision(int count, Answer<std::vector<Instance>> answer) {
  SKYWARD_CHECK(prepared_ && count > 0);
  verb([this, count, answer = std::move(answer)] {
    const double refuse = opened_ ? parameters_.cloud.sold_out : parameters_.cloud.refuse;
    if (simulator_.random.chance(refuse)) {
      const bool told = parameters_.money.charges_interval > Duration{};
      if (told && simulator_.random.chance(parameters_.cloud.wasted)) bill_wasted(count);
      return answer(fail(ErrorKind::exhausted, "sold out"));
    }
    opened_ = true;
    if (!seats_.empty() && std::ranges::count(seats_, false, &Seat::taken) < count) {
      return answer(fail(ErrorKind::exhausted, "too few hosts are free"));
    }
    if (parameters_.jobs.used && simulator_.jobs.chance(parameters_.jobs.queues)) {
      return wait_in_queue(count, answer);
    }
    start(count, answer);
  });
}

void SimulatedCloud::start(int count, const Answer<std::vector<Instance>>& answer) {
  const JobParameters& job = parameters_.jobs;
  if (job.used) jobs_.emplace_back();
  std::vector<Instance> instances;
  for (int i = 0; i < count; ++i) instances.push_back(sell());
  if (job.preempt_mean > Duration{}) {
    simulator_.after(simulator_.jobs.about(job.preempt_mean),
                     [this, which = jobs_.size() - 1] { preempt_job(which); });
  }
  answer(std::move(instances));
}

void SimulatedCloud::wait_in_queue(int count, Answer<std::vector<Instance>> answer) {
  queued_ = std::move(answer);
  if (!launching_) return stop_launching();
  const Duration wait = simulator_.jobs.between(Duration{}, parameters_.jobs.queue_max);
  simulator_.say("a job of {} waits for {:.0f} s", count, seconds(wait));
  queue_ = simulator_.after(wait, [this, count] {
    leave_queue([this, count, answer = std::move(queued_)] { start(count, answer); });
  });
}

void SimulatedCloud::stop_launching() {
  launching_ = false;
  if (!queued_) return;
  leave_queue([answer = std::move(queued_)] {
    answer(fail(ErrorKind::cancelled, "nobody waits for the machines any more"));
  });
}

// Whatever overtook it and is under way ends before `next`.
void SimulatedCloud::leave_queue(Simulator::Event next) {
  simulator_.cancel(queue_);
  queued_ = nullptr;
  verbs_.push_front({.work = std::move(next)});
  next_verb();
}

// A launch that is released at once still costs the minimum.
void SimulatedCloud::bill_wasted(int count) {
  for (int i = 0; i < count; ++i) {
    const InstanceId id = fmt::format("v-{}", wasted_.size());
    wasted_.push_back(id);
    bill_.begin(id, simulator_.now(), price());
    bill_.end(id, simulator_.now());
  }
}

double SimulatedCloud::dollars_wasted() const {
  double sum = 0;
  for (const InstanceId& id : wasted_) sum += bill_.dollars(id);
  return sum;
}

double SimulatedCloud::price() const {
  return parameters_.money.spot ? spot_price_ : parameters_.money.on_demand;
}

// The one that was used least, as with hosts that are reached by SSH.
std::optional<std::size_t> SimulatedCloud::free_seat() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].taken && (!best || seats_[i].uses < seats_[*best].uses)) best = i;
  }
  return best;
}

Instance SimulatedCloud::sell() {
  const std::optional<std::size_t> seat = free_seat();
  const InstanceId id = fmt::format("i-{}", sold_.size());
  SimulatedLink::Door door = SimulatedLink::Door::open;
  if (simulator_.random.chance(parameters_.cloud.never_greet)) door = SimulatedLink::Door::silent;
  if (simulator_.random.chance(parameters_.cloud.unreachable)) door = SimulatedLink::Door::refusing;
  Sold& sold = sold_[id];
  auto host = seat ? seats_[*seat].host : std::make_shared<Host>();
  if (seat) {
    sold.seat = *seat;
    seats_[*seat].taken = true;
    ++seats_[*seat].uses;
  }
  if (parameters_.jobs.used) {
    sold.job = jobs_.size() - 1;
    jobs_.back().push_back(id);
  }
  sold.machine = std::make_unique<SimulatedMachine>(
      simulator_, journal_, parameters_.node, id, door, std::move(host),
      [this, id] { bill_.end(id, simulator_.now()); });
  let_die(id);
  if (parameters_.cloud.recall_mean > Duration{}) {
    simulator_.after(simulator_.random.about(parameters_.cloud.recall_mean),
                     [this, id] { take_back(id); });
  }
  Instance instance;
  instance.id = id;
  instance.private_ip = "10." + id;
  instance.spot = parameters_.money.spot;
  if (instance.spot) instance.price_spot = spot_price_;
  bill_.begin(id, simulator_.now(), price());
  check_rate();
  return instance;
}

void SimulatedCloud::let_die(const InstanceId& id) {
  if (parameters_.cloud.death_mean > Duration{}) {
    simulator_.after(simulator_.random.about(parameters_.cloud.death_mean), [this, id] {
      Sold& sold = sold_.at(id);
      if (!sold.machine->is_on() || sold.ended) return;
      simulator_.say("{} dies", id);
      if (!seats_.empty()) {
        return sold.machine->power_off_for(
            simulator_.returns.between(Duration{1s}, parameters_.returns.off_max));
      }
      sold.machine->power_off();
      if (!parameters_.money.dead_machines_cost) bill_.end(id, simulator_.now());
      if (!parameters_.jobs.used || jobs_[sold.job].front() != id) return;
      if (!simulator_.jobs.chance(parameters_.jobs.ends_with_first)) return;
      simulator_.after(simulator_.jobs.between(Duration{}, kNoticed),
                       [this, job = sold.job] { end_job(job); });
    });
  }
  if (parameters_.cloud.agent_death_mean > Duration{}) {
    simulator_.after(simulator_.random.about(parameters_.cloud.agent_death_mean),
                     [this, id] { let_agent_die(id); });
  }
}

void SimulatedCloud::let_agent_die(const InstanceId& id) {
  SimulatedMachine& machine = *sold_.at(id).machine;
  const ReturnParameters& returns = parameters_.returns;
  if (!machine.agent_runs()) return;
  if (returns.reboot > 0 && simulator_.returns.chance(returns.reboot)) {
    return machine.power_off_for(simulator_.returns.between(Duration{100ms}, returns.off_max));
  }
  if (returns.late_start > 0 && simulator_.returns.chance(returns.late_start)) {
    return machine.exchange_agent();
  }
  machine.kill_agent();
}

// The hourly cost never exceeds what was allowed, unless prices move. A preempted machine costs
// nothing more, even before the engine has asked to terminate it.
void SimulatedCloud::check_rate() const {
  const MoneyParameters& money = parameters_.money;
  if (!money.max_hourly || money.step_mean > Duration{}) return;
  const auto billed =
      std::ranges::count(sold_, false, [this](const auto& one) { return bill_.ended(one.first); });
  const double hourly = static_cast<double>(billed) * price();
  SKYWARD_CHECK(hourly <= *money.max_hourly + 1e-5, "${:.6f} of ${:.6f} an hour", hourly,
                *money.max_hourly);
}

void SimulatedCloud::take_back(const InstanceId& id) {
  SimulatedMachine& machine = *sold_.at(id).machine;
  if (!machine.is_on() || !seats_.empty()) return;
  const Duration left = simulator_.random.between(Duration{}, parameters_.cloud.notice_max);
  simulator_.say("{} is preempted in {:.1f} s", id, seconds(left));
  machine.announce_end(left);
  // Some clouds are late.
  simulator_.after(left + simulator_.random.between(Duration{}, Duration{60s}), [this, id] {
    if (sold_.at(id).machine->is_on()) simulator_.say("{} is gone", id);
    sold_.at(id).machine->power_off();
    bill_.end(id, simulator_.now(), true);
  });
}

void SimulatedCloud::terminate(std::vector<InstanceId> instances, Answer<void> answer) {
  SKYWARD_CHECK(!instances.empty());
  urgent_verb([this, instances = std::move(instances), answer = std::move(answer)] {
    const bool stick = simulator_.random.chance(parameters_.cloud.stick);
    for (const InstanceId& id : instances) {
      const auto found = sold_.find(id);
      SKYWARD_CHECK(found != sold_.end(), "{} was never sold", id);
      SKYWARD_CHECK(!found->second.ended, "{} is terminated twice", id);
      if (stick && found->second.stuck < 2) {
        for (const InstanceId& each : instances) ++sold_.at(each).stuck;
        return answer(fail(ErrorKind::unavailable, "try again later"));
      }
    }
    for (const InstanceId& id : instances) end(id);
    answer({});
  });
}

void SimulatedCloud::end(const InstanceId& id) {
  Sold& sold = sold_.at(id);
  simulator_.say("{} is terminated", id);
  sold.ended = true;
  if (parameters_.jobs.used) {
    leave_job(sold);
  } else if (seats_.empty()) {
    sold.machine->power_off();
  } else {
    seats_[sold.seat].taken = false;
  }
  bill_.end(id, simulator_.now());
}

// Nobody is told: the signal ends the agents, too.
void SimulatedCloud::preempt_job(std::size_t job) {
  const auto is_on = [this](const InstanceId& id) { return sold_.at(id).machine->is_on(); };
  if (std::ranges::none_of(jobs_[job], is_on)) return;
  ++jobs_preempted_;
  for (const InstanceId& id : jobs_[job]) {
    simulator_.say("{} is preempted with its job", id);
    simulator_.after(simulator_.jobs.between(Duration{}, Duration{1s}),
                     [this, id] { sold_.at(id).machine->kill_agent(); });
  }
  simulator_.after(simulator_.jobs.between(Duration{}, parameters_.jobs.grace_max),
                   [this, job] { end_job(job); });
}

void SimulatedCloud::end_job(std::size_t job) {
  for (const InstanceId& id : jobs_[job]) {
    sold_.at(id).machine->power_off();
    bill_.end(id, simulator_.now());
  }
}

// What cannot leave it goes on until its lease expires, or the job ends with the last node in use.
// A lost node keeps nobody's job alive.
void SimulatedCloud::leave_job(const Sold& sold) {
  const std::vector<InstanceId>& job = jobs_[sold.job];
  const auto is_in_use = [this](const InstanceId& id) {
    return !sold_.at(id).ended && sold_.at(id).machine->is_on();
  };
  if (std::ranges::none_of(job, is_in_use)) return end_job(sold.job);
  const bool is_first = &sold == &sold_.at(job.front());
  if (!is_first && !simulator_.jobs.chance(parameters_.jobs.stays)) sold.machine->power_off();
}

void SimulatedCloud::charges(std::vector<InstanceId> instances,
                             Answer<std::vector<Charge>> answer) {
  SKYWARD_CHECK(parameters_.money.charges_interval > Duration{});
  verb([this, instances = std::move(instances), answer = std::move(answer)] {
    if (simulator_.random.chance(parameters_.money.charges_fail)) {
      return answer(fail(ErrorKind::unavailable, "too many requests"));
    }
    std::vector<Charge> charges;
    for (const InstanceId& id : instances) bill_.tell(id, simulator_.now(), charges);
    const std::size_t seen = charges.size();
    for (const InstanceId& id : wasted_) bill_.tell(id, simulator_.now(), charges);
    for (Charge& charge : std::span(charges).subspan(seen)) {
      charge.failed_launch = true;
      charge.spot = parameters_.money.spot;
    }
    answer(std::move(charges));
  });
}

void SimulatedCloud::teardown(Answer<void> answer) {
  torn_down_ = false;  // once more is no mistake
  verb([this, answer = std::move(answer)] {
    SKYWARD_CHECK(verbs_.empty(), "verbs behind teardown()");
    for (const auto& [id, sold] : sold_) {  // what terminate() could not end
      if (!sold.ended) end(id);
    }
    torn_down_ = true;
    answer({});
  });
}

void SimulatedCloud::check_empty() const {
  SKYWARD_CHECK(verbs_.empty() && !busy_ && !queued_);
  SKYWARD_CHECK(torn_down_ || (!prepared_ && sold_.empty()), "not torn down");
  for (const auto& [id, sold] : sold_) {
    SKYWARD_CHECK(sold.ended, "{} is left", id);
    if (!seats_.empty()) continue;  // what could not be reached ends by its lease
    SKYWARD_CHECK(sold.machine->host().processes() == 0, "processes on {} are left", id);
  }
}

std::size_t SimulatedCloud::restarts() const {
  std::set<const Host*> hosts;
  std::size_t count = 0;
  for (const auto& [id, sold] : sold_) {
    const Host& host = sold.machine->host();
    if (!host.agents.empty() && hosts.insert(&host).second) count += host.agents.size() - 1;
  }
  return count;
}

void SimulatedCloud::driver_killed() {
  verbs_.clear();
  simulator_.cancel(queue_);
  queued_ = nullptr;
  launching_ = false;
  driver_killed_ = true;
}

void SimulatedCloud::check_ended(Time limit) const {
  for (const auto& [id, sold] : sold_) {
    const Host& host = sold.machine->host();
    SKYWARD_CHECK(host.processes() == 0, "processes on {} are left", id);
    for (const auto& agent : host.agents) {
      SKYWARD_CHECK(!agent->runs() && agent->ended_at() <= limit, "the agent of {} goes on", id);
    }
    const bool ends = parameters_.returns.ends_itself && sold.machine->agent_has_ended();
    SKYWARD_CHECK(!ends || !host.on, "{} is left", id);
  }
}

}  // namespace skyward::sim
