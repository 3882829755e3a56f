#include "skyward/engine/loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/base/guarded.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"
#include "skyward/io/start_thread.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

// So many that their memory is worth a second look.
constexpr std::size_t kManyTasks = 50'000;
constexpr Duration kReadingTime = std::chrono::seconds(1);
constexpr Duration kTendTimeout = std::chrono::seconds(20);
// Attempts to reach a machine that boots fail every other second.
constexpr Duration kTendUnreached = std::chrono::seconds(30);

Time deadline_in(Duration duration) { return io::EventLoop::now() + duration; }

// With what the core knows of the provider, and what the agents of a pool on more than one machine
// prove to each other.
Options completed(Options options, const PoolSpec& spec,
                  const provider::Capabilities& capabilities) {
  options.real_devices = capabilities.real_devices;
  const bool has_network = capabilities.private_network || capabilities.open_network;
  if (spec.nodes > 1 && has_network && !capabilities.descriptors) {
    options.peer_key = io::random_hex(64);
  }
  return options;
}

PoolSpec named(PoolSpec spec, const std::string& job_id) {
  spec.job_id = job_id;
  return spec;
}

}  // namespace

EngineLoop::EngineLoop(PoolSpec spec, Options options, std::unique_ptr<provider::Provider> provider,
                       Caller& caller)
    : caller_(caller),
      provider_(std::move(provider)),
      state_(make_state(named(spec, options.job_id),
                        completed(options, spec, provider_->capabilities()))),
      token_(io::random_hex(32)),
      timer_(
          loop_, [this] { return state_.phase == Phase::closed ? kNever : next_deadline(state_); },
          [this] { turn([this](Time now) { on_timer(state_, *this, now); }); }),
      thread_(io::start_thread([this] {
        pthread_setname_np(pthread_self(), "skyward");
        loop_.run();
      })) {
  provider_->set_meanwhile([this] { verbs_.run_urgent(); });
  provider_->set_tell([this](const std::string& line) {
    loop_.post([this, line] { caller_.emit(Notice{.message = line}); });
  });
  state_.costs.clock().rate = provider_->capabilities().clock_rate;  // no event has been posted yet
}

EngineLoop::~EngineLoop() {
  // Behind everything that was posted before, so that no call is left unanswered.
  loop_.post([this] { loop_.stop(); });
  thread_.join();
}

std::string EngineLoop::new_job_id() { return io::random_hex(8); }
std::string EngineLoop::new_secret() { return io::random_hex(64); }

int EngineLoop::usable_cpus() { return io::usable_cpus(); }
int EngineLoop::current_core() { return io::current_core(); }

std::uint64_t EngineLoop::usable_memory() { return io::memory_bytes(); }

Status EngineLoop::allow_links(int nodes) {
  constexpr std::uint64_t kFilesPerLink = 5;  // to the command, from it, its errors, itself, a blob
  constexpr std::uint64_t kOtherFiles = 64;
  return io::allow_more_files(kOtherFiles + kFilesPerLink * static_cast<std::uint64_t>(nodes));
}

void EngineLoop::open() {
  loop_.post([this] { turn([&](Time now) { on_open(state_, *this, now); }); });
}

void EngineLoop::close() {
  loop_.post([this] { turn([&](Time now) { on_close(state_, *this, now); }); });
}

void EngineLoop::hurry() {
  loop_.post([this] {
    turn([&](Time now) { hurried_ = on_hurry(state_, *this, now) || hurried_; });
    if (!hurried_) return;
    for (const auto& link : ending_) link->hurry();
  });
}

void EngineLoop::submit(TaskId first, std::vector<wire::Call> calls) {
  loop_.post([this, first, calls = std::make_shared<std::vector<wire::Call>>(std::move(calls))] {
    turn([&](Time now) {
      TaskId task = first;
      for (wire::Call& call : *calls) {
        on_submit(state_, *this, now, task, std::move(call));
        ++task.value;
      }
    });
  });
}

void EngineLoop::cancel(TaskId task) {
  loop_.post([this, task] { turn([&](Time now) { on_cancel(state_, *this, now, task); }); });
}

void EngineLoop::item_taken(TaskId task, std::uint32_t count) {
  loop_.post(
      [this, task, count] { turn_.take([&] { on_item_taken(state_, *this, task, count); }); });
}

void EngineLoop::keep_blob(BlobId blob, bool keep) {
  loop_.post([this, blob, keep] { turn_.take([&] { on_keep_blob(state_, *this, blob, keep); }); });
}

template <typename Find>
auto EngineLoop::ask_loop(Find find) -> std::future<decltype(find())> {
  const auto promise = std::make_shared<std::promise<decltype(find())>>();
  const auto answer = [promise, find = std::move(find)] { promise->set_value(find()); };
  if (is_this_thread()) {
    answer();
  } else {
    loop_.post(answer);
  }
  return promise->get_future();
}

std::future<PoolCost> EngineLoop::cost() {
  return ask_loop(
      [this] { return cost_until(state_, io::EventLoop::now(), provider_->billing_time()); });
}

std::future<std::uint64_t> EngineLoop::least_memory() {
  return ask_loop([this] { return state_.nodes.least_memory(); });
}

std::future<NodeShell> EngineLoop::shell_of(NodeId node) {
  return ask_loop([this, node] {
    NodeShell shell;
    const auto found = links_.find(node);
    if (found == links_.end() || !found->second->connection().shell) return shell;
    const provider::Connection& connection = found->second->connection();
    shell.command = connection.command;
    shell.environment = connection.environment;
    shell.directory = connection.directory;
    return shell;
  });
}

template <typename Step>
void EngineLoop::turn(Step step) {
  turn_.take([&] {
    const Time now = io::EventLoop::now();
    on_clocks(state_, *this, now, provider_->billing_time());
    step(now);
  });
  emit_lines();
  return_memory_later();
  drop_unused_memory_later();
  timer_.arm();
  stay_awake();
}

void EngineLoop::stay_awake() {
  if (!std::exchange(completed_, false) || state_.tasks.size() > 0) return;
  if (caller_.may_linger()) loop_.linger(kAwakeForNext);
}

// By then the caller has read its answers.
void EngineLoop::return_memory_later() {
  const std::size_t tasks = state_.tasks.size();
  had_many_tasks_ = had_many_tasks_ || tasks >= kManyTasks;
  if (tasks > 0 || !std::exchange(had_many_tasks_, false)) return;
  loop_.start_timer(deadline_in(kReadingTime),
                    [this] { loop_.run_blocking([] { io::return_free_memory(); }, [] {}); });
}

void EngineLoop::drop_unused_memory_later() {
  if (drops_memory_ || !caller_.keeps_memory()) return;
  drops_memory_ = true;
  loop_.start_timer(deadline_in(state_.options.idle_memory), [this] {
    loop_.run_blocking([this] { caller_.drop_unused_memory(); },
                       [this] {
                         drops_memory_ = false;
                         drop_unused_memory_later();
                       });
  });
}

template <typename Verb, typename Answer>
void EngineLoop::ask_provider(Verb verb, Answer answer, Queue add) {
  auto reply = std::make_shared<std::optional<decltype(verb())>>();
  (verbs_.*add)([verb = std::move(verb), reply]() mutable { *reply = guarded(verb); },
                [this, reply, answer = std::move(answer)] {
                  turn([&](Time now) { answer(now, *std::move(*reply)); });
                });
}

void EngineLoop::tend_later() {
  const Duration interval = provider_->capabilities().tend_interval;
  if (tends_later_ || !cluster_ || interval <= Duration{}) return;
  tends_later_ = true;
  loop_.start_timer(deadline_in(interval), [this] {
    tends_later_ = false;
    tend();
  });
}

void EngineLoop::tend() {
  if (!cluster_ || std::exchange(tends_, true)) return;
  ask_provider(
      [this, cluster = cluster_]() -> Status {
        if (cluster_ != cluster) return {};  // it was torn down before this call's turn
        return provider_->tend(*cluster, deadline_in(kTendTimeout));
      },
      [this](Time, const Status& done) {
        const bool failed_before = std::exchange(tend_failed_, !done);
        if (!done && !failed_before) {
          caller_.emit(Notice{.message = line_of(done.error()), .level = "warning"});
        }
        tends_ = false;
        tend_later();
      },
      &Verbs::add_urgent);
}

void EngineLoop::tend_connections(Duration pause) {
  const Time now = io::EventLoop::now();
  if (!provider_->capabilities().tends_connections || now - connections_tended_at_ < pause) return;
  connections_tended_at_ = now;
  tend();
}

void EngineLoop::list_offers() {
  ask_provider([this] { return provider_->offers(state_.spec, deadline_in(kProvisionTimeout)); },
               [this](Time now, Result<std::vector<Offer>> offers) {
                 on_offers(state_, *this, now, std::move(offers));
               });
}

void EngineLoop::prepare(const Offer& offer) {
  ask_provider(
      [this, offer] {
        return provider_->prepare(state_.spec, offer, deadline_in(kProvisionTimeout));
      },
      [this](Time now, Result<Cluster> cluster) {
        if (cluster) cluster_ = std::make_shared<const Cluster>(*cluster);
        tend_later();
        on_prepared(state_, *this, now, std::move(cluster));
      });
}

void EngineLoop::provision(int count, NodeId first_node) {
  ask_provider(
      [this, cluster = cluster_, count, first_node] {
        return provider_->provision(*cluster, count, static_cast<int>(first_node.value),
                                    deadline_in(provider_->capabilities().provision_timeout));
      },
      [this, count, first_node](Time now, Result<std::vector<Instance>> instances) {
        on_provisioned(state_, *this, now, first_node, count, std::move(instances));
      });
}

void EngineLoop::terminate(std::vector<InstanceId> instances) {
  ask_provider(
      [this, cluster = cluster_, instances = std::move(instances)] {
        return provider_->terminate(*cluster, instances, deadline_in(kProvisionTimeout));
      },
      [this](Time now, const Status& status) { on_terminated(state_, *this, now, status); },
      &Verbs::add_urgent);
}

void EngineLoop::stop_launching() { provider_->stop_launching(); }

void EngineLoop::ask_charges(std::vector<InstanceId> instances) {
  ask_provider(
      [this, cluster = cluster_, instances = std::move(instances)] {
        return provider_->charges(*cluster, instances, deadline_in(kChargesTimeout));
      },
      [this](Time now, Result<std::vector<Charge>> charges) {
        on_charges(state_, *this, now, std::move(charges));
      });
}

void EngineLoop::teardown() {
  const auto standing = std::make_shared<std::vector<InstanceId>>();
  ask_provider(
      [this, standing]() -> Status {
        // Runs after a prepare() that was under way, and sees what that made.
        if (!cluster_) return {};
        Status done = provider_->teardown(*cluster_, deadline_in(kProvisionTimeout));
        if (!done) *standing = provider_->standing(*cluster_);
        return done;
      },
      [this, standing](Time now, const Status& status) {
        if (status) cluster_.reset();
        on_torn_down(state_, *this, now, status, *standing);
      });
}

void EngineLoop::connect(NodeId node, const Instance& instance) {
  drop_link(node, Duration{});
  provider::Connection connection = provider_->connection(*cluster_, instance);
  const provider::Capabilities capabilities = provider_->capabilities();
  wire::Hello hello;
  hello.protocol = kProtocolVersion;
  hello.version = SKYWARD_VERSION;
  hello.pool = state_.options.job_id;
  hello.node = node;
  const std::uint32_t life = ++lives_[node];
  hello.token = token_;
  EngineLink::Events events;
  auto owner = std::make_shared<EngineLink*>(nullptr);
  events.on_welcome = [this, node, instance](std::optional<Time> reached_at) {
    provider::Bootstrap bootstrap = provider_->bootstrap(*cluster_, instance);
    NodeSetup setup{.worker_command = bootstrap.worker_command.empty()
                                          ? state_.spec.runtime.command
                                          : std::move(bootstrap.worker_command),
                    .directory = std::move(bootstrap.directory),
                    .bootstrap = std::move(bootstrap.script),
                    .bootstrap_environment = std::move(bootstrap.environment),
                    .end_command = std::move(bootstrap.end_command),
                    .end_script = std::move(bootstrap.end_script),
                    .reached_at = reached_at,
                    .preemption = provider_->capabilities().preemption};
    for (std::string& word : setup.worker_command) {
      if (word == "{python}") word = bootstrap.python;
      if (word == kAgentWord) word = "/proc/self/exe";  // the agent starts it
    }
    turn([&](Time now) { on_joined(state_, *this, now, node, std::move(setup)); });
  };
  events.on_message = [this, node](wire::Message message) {
    turn([&](Time now) { on_message(state_, *this, now, node, std::move(message)); });
  };
  events.on_trouble = [this, node, instance](const std::string& why) {
    tell_trouble(node, instance, why);
    tend_connections({});
  };
  events.on_not_reconnected = [this] { tend_connections({}); };
  events.on_unreached = [this, node, instance, stands = connection.stands](Error why) {
    tell_unreached(node, instance, stands, std::move(why));
    tend_connections(kTendUnreached);
  };
  events.on_recovered = [this, node, instance](Duration after) {
    caller_.emit(Notice{.message = fmt::format("node {}: connected again after {:.1f} s",
                                               node.value, seconds(after)),
                        .instance_id = instance.id});
  };
  events.on_offline = [this, node] { turn([&](Time now) { on_offline(state_, now, node); }); };
  events.on_lost = [this, node, instance](Error why) {
    why = provider_->explain(instance, std::move(why));
    turn([&](Time now) { on_node_lost(state_, *this, now, node, std::move(why)); });
  };
  events.on_gone = [this, owner] { link_gone(*owner); };
  const LinkPolicy::Limits limits{.greet = capabilities.greet_timeout,
                                  .silence = state_.spec.heartbeat_timeout,
                                  .patience = patience_of(state_.spec, capabilities.gateway),
                                  .lease = state_.spec.lease,
                                  .gateway = capabilities.gateway};
  auto link = std::make_unique<EngineLink>(loop_, std::move(hello), std::move(connection),
                                           capabilities.descriptors, life, limits, lost_agents_,
                                           std::move(events));
  *owner = link.get();
  links_[node] = std::move(link);
}

// Each attempt is noted. The first is told, unless the machine is still booting.
void EngineLoop::tell_unreached(NodeId node, const Instance& instance, bool stands, Error why) {
  why = provider_->explain(instance, std::move(why));
  const bool is_first = state_.nodes[node].unreached.empty();
  turn([&](Time) { on_unreached(state_, node, why); });
  if (!stands || !is_first) return;
  tell_trouble(node, instance, line_of(why));
}

void EngineLoop::tell_trouble(NodeId node, const Instance& instance, const std::string& why) {
  caller_.emit(Notice{.message = fmt::format("node {}: {}; connecting again", node.value, why),
                      .level = "warning",
                      .instance_id = instance.id});
}

void EngineLoop::disconnect(NodeId node) { drop_link(node, kCancelGrace); }

void EngineLoop::drop_link(NodeId node, Duration grace) {
  const auto found = links_.find(node);
  if (found == links_.end()) return;
  ending_.push_back(std::move(found->second));
  links_.erase(found);
  if (hurried_) ending_.back()->hurry();
  ending_.back()->close(grace);
}

void EngineLoop::link_gone(EngineLink* link) {
  std::erase_if(links_, [&](const auto& entry) { return entry.second.get() == link; });
  std::erase_if(ending_, [&](const auto& entry) { return entry.get() == link; });
  tell_closed_when_quiet();
}

void EngineLoop::send(NodeId node, wire::Message message) {
  const auto found = links_.find(node);
  if (found != links_.end()) found->second->send(std::move(message));
}

void EngineLoop::complete(TaskId task, wire::Outcome outcome) {
  emit_lines();
  completed_ = true;
  caller_.complete(task, std::move(outcome));
}

void EngineLoop::deliver_item(TaskId task, wire::Payload item) {
  caller_.deliver_item(task, std::move(item));
}

void EngineLoop::retain_blob(const wire::Blob& blob) { caller_.retain_blob(blob); }

void EngineLoop::emit(Event event) {
  if (std::holds_alternative<LogLine>(event)) return lines_.push_back(std::move(event));
  emit_lines();
  caller_.emit(std::move(event));
}

// Ahead of whatever follows them.
void EngineLoop::emit_lines() {
  if (!lines_.empty()) caller_.emit_lines(std::exchange(lines_, {}));
}

void EngineLoop::opened(Status status) { caller_.opened(std::move(status)); }

void EngineLoop::closed(Status left) {
  closed_ = std::move(left);
  tell_closed_when_quiet();
}

// The pool is closed for the caller when no process of ours is left and no call of the provider
// runs, either: the loop may end then.
void EngineLoop::tell_closed_when_quiet() {
  if (!closed_ || !links_.empty() || !ending_.empty() || !verbs_.are_idle()) return;
  timer_.stop();
  cluster_.reset();  // nothing is looked after any more
  caller_.closed(*std::exchange(closed_, std::nullopt));
}

}  // namespace skyward::engine
