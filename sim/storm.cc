#include "sim/storm.h"

#include <fmt/format.h>

#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"

namespace skyward::sim {
namespace {

// Longer than any chain of deadlines: a pool that does nothing for its user for so long is stuck.
constexpr Duration kStuckAfter = std::chrono::hours(12);
// All that is left to happen once a pool has closed.
constexpr std::uint64_t kMaxStepsAfterClosing = 1'000'000;
// In large runs the state is not walked after each event.
constexpr std::size_t kSmallState = 200;
constexpr std::uint64_t kCheckEvery = 64;
constexpr Duration kFarTimeout = std::chrono::seconds(25);
constexpr Duration kLease = std::chrono::seconds(60);

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
  breaks += other.breaks;
  notices += other.notices;
  return *this;
}

Storm::Storm(const StormOptions& options)
    : world_(options.seed, options.verbose),
      dials_(draw_dials(world_.random, options.nodes, options.tasks)),
      cloud_(world_, journal_, dials_),
      user_(world_, dials_,
            {.submit =
                 [this](engine::TaskSpec task) {
                   turn([&](Time now) { on_submit(state_, *this, now, std::move(task)); });
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
  spec.nodes = dials_.nodes;
  spec.concurrency = dials_.concurrency;
  spec.timeout = dials_.user.lifetime;
  spec.collect_metrics = world_.random.chance(0.5);
  // Far links decide themselves; the core only sees to it that somebody does.
  state_ = engine::make_state(
      std::move(spec), {.job_id = "storm",
                        .heartbeat_timeout = dials_.network.far ? kFarTimeout : kHeartbeatTimeout,
                        .lease = dials_.network.far ? kLease : Duration{},
                        .workers_per_node = static_cast<std::uint32_t>(dials_.workers_per_node)});
}

StormReport Storm::run() {
  world_.say("{} nodes × {} workers × {} slots, {} tasks{}", dials_.nodes, dials_.workers_per_node,
             dials_.concurrency, dials_.tasks, dials_.calm ? ", calm" : "");
  const Time began = world_.now();
  turn([&](Time now) { on_open(state_, *this, now); });
  while (!user_.is_closed()) {
    SKYWARD_CHECK(world_.step(), "nothing will ever happen: {}", user_.stuck_text());
    ++report_.steps;
    SKYWARD_CHECK(world_.now() < user_.progress() + kStuckAfter, "stuck in phase {}: {}",
                  static_cast<int>(state_.phase), user_.stuck_text());
  }
  report_.virtual_seconds = seconds(world_.now() - began);
  cloud_.check_empty();
  check(true);
  // Late words must not wake anything.
  std::uint64_t late = 0;
  while (world_.step()) SKYWARD_CHECK(++late < kMaxStepsAfterClosing, "it goes on for ever");
  check(true);
  report_.machines = cloud_.sold();
  report_.answered = user_.answered();
  report_.starts = journal_.size();
  for (const auto& link : all_links_) report_.breaks += link->breaks();
  return report_;
}

template <typename Step>
void Storm::turn(Step step) {
  step(world_.now());
  check(false);
  arm_timer();
}

void Storm::arm_timer() {
  const Time next = engine::next_deadline(state_);
  if (next >= timer_.first || state_.phase == engine::Phase::closed) return;
  world_.cancel(timer_);
  timer_ = world_.at(next, [this] {
    timer_ = World::kNoTimer;
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
  cloud_.provision(count, [this, count, first_node](Result<std::vector<Instance>> instances) {
    turn([&](Time now) {
      on_provisioned(state_, *this, now, first_node, count, std::move(instances));
    });
  });
}

void Storm::terminate(std::vector<InstanceId> instances) {
  cloud_.terminate(std::move(instances), [this](Status status) {
    turn([&](Time) { on_terminated(state_, *this, std::move(status)); });
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
  Machine& machine = cloud_.machine(instance.id);
  Link::Events events;
  events.on_joined = [this, node] {
    engine::NodeSetup setup;
    setup.worker_command = {"worker"};
    if (dials_.node.bootstrap) setup.bootstrap = "script";
    turn([&](Time now) { on_joined(state_, *this, now, node, std::move(setup)); });
  };
  events.on_engine_message = [this, node](wire::Message message) {
    turn([&](Time now) { on_message(state_, *this, now, node, std::move(message)); });
  };
  events.on_lost = [this, node](const Error& why) {
    world_.say("node {} is lost: {}", node.value, why.message);
    ++report_.losses;
    links_.erase(node);
    turn([&](Time now) { on_node_lost(state_, *this, now, node, why); });
  };
  events.on_agent_message = [&machine](const wire::Message& message) { machine.receive(message); };
  events.on_agent_heard = [&machine] { machine.heard(); };
  events.on_cut_off = [&machine] { machine.cut_off(); };
  all_links_.push_back(std::make_unique<Link>(world_, dials_.network,
                                              fmt::format("node {} ({})", node.value, instance.id),
                                              machine.door(), std::move(events)));
  links_[node] = all_links_.back().get();
  machine.attach(*links_[node]);
}

void Storm::disconnect(NodeId node) {
  const auto found = links_.find(node);
  if (found == links_.end()) return;
  Link* link = found->second;
  links_.erase(found);
  link->engine_closes();
}

void Storm::send(NodeId node, wire::Message message) {
  const auto found = links_.find(node);
  SKYWARD_CHECK(found != links_.end(), "message {} to node {}, which is not connected",
                message.index(), node.value);
  if (std::holds_alternative<wire::RecallTasks>(message)) ++report_.recalls;
  const auto* run = std::get_if<wire::RunTask>(&message);
  if (run != nullptr && run->attempt > 1) ++report_.retries;
  SKYWARD_CHECK(run == nullptr || !taken_back_.contains(node), "task {} goes to node {}",
                run->task.value, node.value);
  found->second->engine_sends(std::move(message));
}

void Storm::complete(TaskId task, engine::Completion completion) {
  user_.complete(task, completion);
}

void Storm::deliver_item(TaskId task, wire::Payload item) { user_.deliver_item(task, item); }

void Storm::retain_blob(const wire::Blob& blob) { user_.retain_blob(blob); }

void Storm::emit(Event event) {
  if (const auto* error = std::get_if<ErrorEvent>(&event)) world_.say("error: {}", error->message);
  if (const auto* notice = std::get_if<InstancePreempted>(&event)) {
    ++report_.notices;
    taken_back_.insert(NodeId{static_cast<std::uint32_t>(notice->node)});
  }
  user_.event(event);
}

void Storm::opened(Status status) {
  world_.say("opened: {}", status ? "ok" : status.error().message);
  user_.opened(status);
}

void Storm::closed() {
  world_.say("closed");
  user_.closed();
}

}  // namespace skyward::sim
