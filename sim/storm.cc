#include "sim/storm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/link_policy.h"
#include "skyward/spec/link_limits.h"

namespace skyward::sim {
namespace {

// Longer than any chain of deadlines: a pool that does nothing for its user for so long is stuck.
constexpr Duration kStuckAfter = std::chrono::hours(12);
// All that is left to happen once a pool has closed.
constexpr std::uint64_t kMaxStepsAfterClosing = 1'000'000;
// In large runs the state is not walked after each event.
constexpr std::size_t kSmallState = 200;
constexpr std::uint64_t kCheckEvery = 64;
constexpr Duration kLease = std::chrono::seconds(60);
// After the lease: what is on its way, and the machine's own end.
constexpr Duration kEndSlack = std::chrono::seconds(30);
// From a loss until the cloud is asked to end the machine: requests before it come first.
constexpr Duration kMostUntilRelease = std::chrono::seconds(60);

// As a pool has it.
Duration silence_for_core(const NetworkParameters& network) {
  return network.far ? engine::decided_after({}, network.gateway) : kHeartbeatTimeout;
}

StormParameters draw_all(Simulator& simulator, const StormOptions& options) {
  StormParameters parameters = draw_parameters(simulator.random, options.nodes, options.tasks);
  draw_returns(simulator.returns, parameters);
  draw_crowds(simulator.crowds, parameters, options.tasks);
  draw_groups(simulator.groups, parameters);
  draw_together(simulator.together, parameters);
  draw_memory(simulator.memory, parameters);
  draw_defects(simulator.defects, parameters);
  draw_jobs(simulator.jobs, parameters, options.jobs);
  return parameters;
}

}  // namespace

StormReport& StormReport::operator+=(const StormReport& other) {
  steps += other.steps;
  virtual_seconds += other.virtual_seconds;
  machines += other.machines;
  answered += other.answered;
  starts += other.starts;
  retries += other.retries;
  recalls += other.recalls;
  losses += other.losses;
  offline += other.offline;
  breaks += other.breaks;
  notices += other.notices;
  dollars += other.dollars;
  worst_error = std::max(worst_error, other.worst_error);
  budgets += other.budgets;
  warnings += other.warnings;
  stops += other.stops;
  deaths += other.deaths;
  ran_nothing += other.ran_nothing;
  restarts += other.restarts;
  fetches += other.fetches;
  stalls += other.stalls;
  jobs += other.jobs;
  return *this;
}

Storm::Storm(const StormOptions& options)
    : simulator_(options.seed, options.verbose),
      parameters_(draw_all(simulator_, options)),
      cloud_(simulator_, journal_, parameters_),
      user_(simulator_, parameters_,
            {.submit =
                 [this](TaskId task, wire::Call call) {
                   turn([&](Time now) { on_submit(state_, *this, now, task, std::move(call)); });
                 },
             .cancel =
                 [this](TaskId task) {
                   turn([&](Time now) { on_cancel(state_, *this, now, task); });
                 },
             .item_taken =
                 [this](TaskId task, std::uint32_t count) {
                   turn([&](Time) { on_item_taken(state_, *this, task, count); });
                 },
             .close = [this] { turn([&](Time now) { on_close(state_, *this, now); }); }}) {
  PoolSpec spec;
  spec.provider.name = "virtual";
  spec.nodes = parameters_.nodes;
  spec.concurrency = parameters_.concurrency;
  spec.timeout = parameters_.user.lifetime;
  spec.budget = parameters_.money.budget;
  spec.max_hourly_cost = parameters_.money.max_hourly;
  if (!parameters_.money.spot) spec.spot.kind = SpotKind::never;
  if (simulator_.volumes.chance(0.2)) {
    spec.volumes.push_back({.mount_path = "/data", .bucket = "data"});
  }
  spec.collect_metrics = simulator_.random.chance(0.5);
  // Far links decide themselves; the core only sees to it that somebody does.
  state_ = engine::make_state(
      std::move(spec),
      {.job_id = "storm",
       .heartbeat_timeout = silence_for_core(parameters_.network),
       .lease = parameters_.network.far ? kLease : Duration{},
       .workers_per_node = static_cast<std::uint32_t>(parameters_.workers_per_node),
       .max_tasks_given = parameters_.max_tasks_given,
       .max_kept_function_bytes = parameters_.max_kept_function_bytes,
       .billing = parameters_.money.billing,
       .charges_interval = parameters_.money.charges_interval,
       .cost_interval = {},
       .peer_key = parameters_.network.peers ? "secret" : ""});
}

StormReport Storm::run() {
  simulator_.say("{} nodes × {} workers × {} slots, {} tasks{}", parameters_.nodes,
                 parameters_.workers_per_node, parameters_.concurrency, parameters_.tasks,
                 parameters_.calm ? ", calm" : "");
  const Time began = simulator_.now();
  if (parameters_.returns.driver_death_mean > Duration{}) {
    simulator_.after(simulator_.returns.about(parameters_.returns.driver_death_mean),
                     [this] { kill_engine(); });
  }
  turn([&](Time now) { on_open(state_, *this, now); });
  while (!user_.is_closed() && !killed_) {
    SKYWARD_CHECK(simulator_.step(), "nothing will ever happen: {}", user_.stuck_text());
    ++report_.steps;
    SKYWARD_CHECK(simulator_.now() < user_.progress() + kStuckAfter, "stuck in phase {}: {}",
                  name(state_.phase), user_.stuck_text());
  }
  report_.virtual_seconds = seconds(simulator_.now() - began);
  const Time ended = simulator_.now();
  if (!killed_) {
    cloud_.check_empty();
    check_bill();
    check(true);
  }
  // Late words must not wake anything.
  std::uint64_t late = 0;
  while (simulator_.step()) SKYWARD_CHECK(++late < kMaxStepsAfterClosing, "it goes on for ever");
  if (!killed_) check(true);
  // Nobody greets an agent for longer than its lease.
  cloud_.check_ended(ended + std::max(kLease, kGreetTimeout) + kEndSlack);
  report_.machines = cloud_.sold();
  report_.restarts = cloud_.restarts();
  report_.jobs = cloud_.jobs_preempted();
  report_.answered = user_.answered();
  report_.starts = journal_.size();
  for (const auto& link : all_links_) {
    report_.breaks += link->breaks();
    report_.fetches += link->fetches();
    report_.stalls += link->stalls();
  }
  return report_;
}

template <typename Step>
void Storm::turn(Step step) {
  if (killed_) return;
  turn_.take([&] { step(simulator_.now()); });
  check(false);
  arm_timer();
}

// As `kill -9` does it: nobody is told, and nothing more is asked for.
void Storm::kill_engine() {
  if (user_.is_closed()) return;
  simulator_.say("the engine is killed");
  killed_ = true;
  ++report_.deaths;
  simulator_.cancel(timer_);
  for (const auto& link : all_links_) link->engine_killed();
  cloud_.driver_killed();
}

void Storm::arm_timer() {
  const Time next = engine::next_deadline(state_);
  if (next >= timer_.first || state_.phase == engine::Phase::closed) return;
  simulator_.cancel(timer_);
  timer_ = simulator_.at(next, [this] {
    timer_ = Simulator::kNoTimer;
    if (state_.phase == engine::Phase::closed) return;
    turn([&](Time now) { on_timer(state_, *this, now); });
  });
}

void Storm::check(bool always) {
  ++turns_;
  if (always || state_.tasks.size() < kSmallState || turns_ % kCheckEvery == 0) {
    engine::sanity_check(state_);
  }
}

// The engine's sum against the cloud's bill, and the bill against the budget.
void Storm::check_bill() {
  const MoneyParameters& money = parameters_.money;
  if (money.on_demand <= 0) return;
  const double bill = cloud_.dollars();
  report_.dollars = bill;
  if (money.budget) {
    report_.budgets = 1;
    if (state_.tasks.abandoned() && state_.tasks.abandoned()->kind == ErrorKind::over_budget)
      report_.stops = 1;
    const double quantum = money.on_demand * seconds(money.billing.quantum) / 3600;
    SKYWARD_CHECK(bill <= *money.budget + quantum, "${:.4f} of a budget of ${:.4f}", bill,
                  *money.budget);
  }
  if (!all_told_) {  // it counts from the request to the confirmed end, then
    const bool guesses = money.step_mean > Duration{};  // at prices that it was not told
    const double seen = bill - cloud_.dollars_wasted();
    SKYWARD_CHECK(guesses || final_cost_ >= seen * 0.99, "${:.6f}, but the bill is ${:.6f}",
                  final_cost_, seen);
    return;
  }
  // A machine costs whole micro-dollars.
  const double rounding = static_cast<double>(cloud_.sold()) * 1e-6;
  const double error =
      std::max(std::abs(final_cost_ - bill) - rounding, 0.0) / std::max(bill, 1e-9);
  report_.worst_error = error;
  SKYWARD_CHECK(error <= 0.01, "${:.6f}, but the bill is ${:.6f}", final_cost_, bill);
}

void Storm::list_offers() {
  cloud_.list_offers([this](Result<std::vector<Offer>> offers) {
    turn([&](Time now) { on_offers(state_, *this, now, std::move(offers)); });
  });
}

void Storm::prepare(const Offer& offer) {
  cloud_.prepare(offer, [this](Result<Cluster> cluster) {
    turn([&](Time now) { on_prepared(state_, *this, now, std::move(cluster)); });
  });
}

void Storm::provision(int count, NodeId first_node) {
  SKYWARD_CHECK(launching_, "launched after stop_launching()");
  cloud_.provision(count, [this, count, first_node](Result<std::vector<Instance>> instances) {
    turn([&](Time now) {
      on_provisioned(state_, *this, now, first_node, count, std::move(instances));
    });
  });
}

void Storm::stop_launching() {
  launching_ = false;
  cloud_.stop_launching();
}

void Storm::terminate(std::vector<InstanceId> instances) {
  for (const InstanceId& id : instances) {
    const auto lost = lost_at_.find(id);
    if (lost == lost_at_.end()) continue;
    SKYWARD_CHECK(simulator_.now() - lost->second <= kMostUntilRelease, "{} was lost {} s ago", id,
                  seconds(simulator_.now() - lost->second));
    lost_at_.erase(lost);
  }
  cloud_.terminate(std::move(instances), [this](Status status) {
    turn([&](Time now) { on_terminated(state_, *this, now, std::move(status)); });
  });
}

void Storm::ask_charges(std::vector<InstanceId> instances) {
  cloud_.charges(std::move(instances), [this](const Result<std::vector<Charge>>& charges) {
    all_told_ = charges.has_value() && state_.phase == engine::Phase::removing;
    turn([&](Time now) { on_charges(state_, *this, now, charges); });
  });
}

void Storm::teardown() {
  cloud_.teardown([this](Status status) {
    turn([&](Time now) { on_torn_down(state_, *this, now, std::move(status)); });
  });
}

void Storm::connect(NodeId node, const Instance& instance) {
  disconnect(node);
  taken_back_.erase(node);
  SimulatedMachine& machine = cloud_.machine(instance.id);
  places_[node] = &machine;
  SimulatedLink::Events events;
  events.on_joined = [this, node] {
    engine::NodeSetup setup;
    setup.worker_command = {"worker"};
    if (parameters_.node.bootstrap) setup.bootstrap = "script";
    if (parameters_.returns.ends_itself) setup.end_command = {"poweroff"};
    turn([&](Time now) { on_joined(state_, *this, now, node, std::move(setup)); });
  };
  events.on_engine_message = [this, node](wire::Message message) {
    turn([&](Time now) { on_message(state_, *this, now, node, std::move(message)); });
  };
  events.on_offline = [this, node] {
    ++report_.offline;
    turn([&](Time now) { on_offline(state_, now, node); });
  };
  events.on_lost = [this, node, id = instance.id](const Error& why) {
    simulator_.say("node {} is lost: {}", node.value, why.message);
    ++report_.losses;
    // One with a preemption notice may be left to its cloud.
    if (!taken_back_.contains(node)) lost_at_.emplace(id, simulator_.now());
    give_up(node, *links_.at(node));
    links_.erase(node);
    turn([&](Time now) { on_node_lost(state_, *this, now, node, why); });
  };
  events.on_agent_message = [&machine](const wire::Message& message) { machine.receive(message); };
  events.on_agent_heard = [&machine] { machine.heard(); };
  events.on_cut_off = [&machine] { machine.cut_off(); };
  events.on_agent_turn = [&machine](Simulator::Event step) { machine.agent_turn(std::move(step)); };
  events.on_agent_timer = [&machine] { machine.ring_link(); };
  events.is_on = [&machine] { return machine.is_on(); };
  events.on_start_agent = [this, &machine] { machine.start_agent(lost_); };
  events.peer = [this](NodeId other) -> SimulatedLink* {
    const auto found = links_.find(other);
    return found == links_.end() ? nullptr : found->second;
  };
  all_links_.push_back(std::make_unique<SimulatedLink>(
      simulator_, parameters_.network, fmt::format("node {} ({})", node.value, instance.id),
      machine.door(), std::move(events)));
  links_[node] = all_links_.back().get();
  machine.attach(*links_[node]);
}

void Storm::disconnect(NodeId node) {
  const auto found = links_.find(node);
  if (found == links_.end()) return;
  SimulatedLink* link = found->second;
  links_.erase(found);
  link->engine_closes();
  give_up(node, *link);
}

// Until it was seen to end, it may be at work on a machine that is launched again.
void Storm::give_up(NodeId node, const SimulatedLink& link) {
  SimulatedMachine* machine = places_.at(node);
  lost_.insert(machine);
  journal_.lost(machine->name());
  if (!parameters_.network.far || !simulator_.returns.chance(parameters_.returns.sweep)) return;
  simulator_.after(simulator_.returns.between(Duration{10ms}, Duration{7s}),
                   [this, machine, &link] {
                     if (killed_ || !link.is_reachable()) return;
                     machine->sweep_agent();
                     lost_.erase(machine);
                   });
}

void Storm::send(NodeId node, wire::Message message) {
  const auto found = links_.find(node);
  SKYWARD_CHECK(found != links_.end(), "message {} to node {}, which is not connected",
                message.index(), node.value);
  if (std::holds_alternative<wire::RecallTasks>(message)) ++report_.recalls;
  const auto* run = std::get_if<wire::RunTask>(&message);
  if (run != nullptr && run->attempt > 1) ++report_.retries;
  if (std::holds_alternative<wire::Configure>(message)) {
    journal_.machine(node, state_.nodes[node].instance.private_ip);
  }
  if (run != nullptr) check_together(*run);
  SKYWARD_CHECK(run == nullptr || !taken_back_.contains(node), "task {} goes to node {}",
                run->task.value, node.value);
  found->second->engine_sends(std::move(message));
}

// The first time, all nodes are there, or were when it had to wait for room on its own. Later it
// may go there once more.
void Storm::check_together(const wire::RunTask& run) {
  const engine::Task* task = state_.tasks.find(run.task);
  if (task == nullptr || !task->call.options.together || journal_.was_sent_together(run.task)) {
    return;
  }
  const bool had_no_room = state_.tasks.on(task->node).outstanding == parameters_.max_tasks_given;
  SKYWARD_CHECK(had_no_room || state_.nodes.all_in(engine::NodeState::ready), "task {}",
                run.task.value);
  journal_.sent_together(run.task);
}

void Storm::complete(TaskId task, wire::Outcome outcome) { user_.complete(task, outcome); }

void Storm::deliver_item(TaskId task, wire::Payload item) { user_.deliver_item(task, item); }

void Storm::retain_blob(const wire::Blob& blob) { user_.retain_blob(blob); }

void Storm::emit(Event event) {
  if (const auto* error = std::get_if<ErrorEvent>(&event)) {
    simulator_.say("error: {}", error->message);
    const bool ran_nothing = error->message.contains("no worker process has begun a task");
    if (ran_nothing && error->message.contains("was lost")) ++report_.ran_nothing;
    // In calm weather nothing dies: what is held up for a while must not be taken for dead.
    SKYWARD_CHECK(!parameters_.calm || !error->message.contains("was lost"), "{}", error->message);
    // Far links reconnect, or give up, before the core counts a node as silent.
    const std::string silent = fmt::format("no message from it for {:.1f} s",
                                           seconds(silence_for_core(parameters_.network)));
    SKYWARD_CHECK(!parameters_.network.far || !error->message.contains(silent), "{}",
                  error->message);
  }
  if (const auto* notice = std::get_if<InstancePreempted>(&event)) {
    ++report_.notices;
    taken_back_.insert(NodeId{static_cast<std::uint32_t>(notice->node)});
  }
  if (const auto* launched = std::get_if<InstanceProvisioned>(&event)) {
    SKYWARD_CHECK(standing_.insert(launched->instance_id).second, "{}", launched->instance_id);
  }
  if (const auto* stopping = std::get_if<InstanceStopping>(&event)) {
    SKYWARD_CHECK(standing_.erase(stopping->instance_id) == 1, "{}", stopping->instance_id);
  }
  if (std::holds_alternative<BudgetWarning>(event)) ++report_.warnings;
  if (const auto* cost = std::get_if<CostFinal>(&event)) {
    final_cost_ = cost->total_cost;
    const double parts = cost->setup_cost + cost->useful_cost + cost->idle_cost + cost->lost_cost;
    SKYWARD_CHECK(std::abs(parts - cost->total_cost) < 1e-6, "the parts of ${:.6f} make ${:.6f}",
                  cost->total_cost, parts);
  }
  user_.event(event);
}

void Storm::opened(Status status) {
  simulator_.say("opened: {}", status ? "ok" : status.error().message);
  user_.opened(status);
}

void Storm::closed(Status left) {
  simulator_.say("closed: {}", left ? "nothing is left" : left.error().message);
  SKYWARD_CHECK(left, "{}", left.error().message);
  SKYWARD_CHECK(standing_.empty(), "nothing told of the end of {}", *standing_.begin());
  SKYWARD_CHECK(lost_at_.empty(), "nothing asked for the end of {}", lost_at_.begin()->first);
  user_.closed();
}

}  // namespace skyward::sim
