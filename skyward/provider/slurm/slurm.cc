#include "skyward/provider/slurm/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/held_ledger.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/remote_image.h"
#include "skyward/provider/renting/reaping.h"
#include "skyward/provider/slurm/keeper.h"
#include "skyward/provider/slurm/partitions.h"
#include "skyward/provider/slurm/slurm_account.h"

namespace skyward::provider {

namespace {

using namespace slurm;
using namespace std::chrono_literals;

// A queue may be longer than any pool lives: the pool's timeout ends the wait, and Ctrl-C.
constexpr Duration kQueueTimeout = 24h * 90;
// From the start of the job to the agent's first word: its upload, perhaps through a login node.
constexpr Duration kJobGreetTimeout = 300s;
constexpr Duration kNoLimit = 24h * 3650;  // of a pool without a timeout
constexpr Duration kMarkGrace = 15min;
// The same reason to wait is told again so rarely.
constexpr Duration kTellAgain = 10min;

class SlurmProvider final : public Provider {
 public:
  SlurmProvider(World world, Access access, Wishes wishes, std::string login)
      : world_(std::move(world)),
        access_(std::move(access)),
        wishes_(std::move(wishes)),
        login_(std::move(login)) {}

  std::string_view name() const override { return kProvider; }
  Capabilities capabilities() const override {
    return {.spot = false,
            .root = false,
            .fuse = false,
            .provision_timeout = kQueueTimeout,
            .greet_timeout = kJobGreetTimeout};
  }

  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override;
  Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) override;
  Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                          Time deadline) override;
  Result<std::optional<Instance>> get_instance(const Cluster& cluster, const std::string& id,
                                               Time deadline) override;
  Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                   Time deadline) override;
  void set_meanwhile(std::function<void()> run) override { world_.meanwhile = std::move(run); }
  void set_tell(std::function<void(const std::string&)> tell) override {
    world_.tell = std::move(tell);
  }
  void stop_buying() override { world_.buying.request_stop(); }
  Status teardown(const Cluster& cluster, Time deadline) override;
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) override;
  Error explain(const Instance& instance, Error error) override;

 private:
  // A pool that this process has open.
  struct Plan {
    std::vector<std::string> agents{};
    RemoteImage image{};
    JobOrder order{};
    Mark mark{};
    PoolDirectory directory{};
  };
  // What was last told of a waiting job.
  struct Told {
    std::string line{};
    Time at{};
  };

  Status look(Time deadline);
  PoolBook& book_of(const Cluster& cluster);
  void tell_waiting(const Job& job);
  const Plan* find_plan(const std::string& cluster);

  World world_;
  const Access access_;
  const Wishes wishes_;
  const std::string login_;  // as it was given
  SlurmAccount account_{world_, access_};
  std::vector<Shelf> shelves_;  // of the last look
  SweepAccount user_;           // the same
  Told told_;
  HeldLedger ledger_{[this] { return open_ledger(world_); }};
  std::map<std::string, PoolBook> books_;  // by cluster id
  // connection() is asked while a verb runs.
  std::mutex mutex_;
  std::map<std::string, Plan> plans_;  // by cluster id
};

PoolBook& SlurmProvider::book_of(const Cluster& cluster) {
  return books_.try_emplace(cluster.id, world_, ledger_, cluster.id).first->second;
}

const SlurmProvider::Plan* SlurmProvider::find_plan(const std::string& cluster) {
  const std::scoped_lock lock(mutex_);
  const auto found = plans_.find(cluster);
  return found == plans_.end() ? nullptr : &found->second;
}

Status SlurmProvider::check(const PoolSpec& spec) {
  if (Status status = check_agent(spec); !status) return status;
  if (Status status = check_architecture(spec); !status) return status;
  if (!spec.volumes.empty()) {
    return fail(ErrorKind::unsupported,
                "Slurm: volumes cannot be mounted on nodes that belong to a site; nothing was "
                "submitted",
                "read and write the site's own file system, or the bucket in the function");
  }
  return {};
}

// ---- What there is

Status SlurmProvider::look(Time deadline) {
  auto user = account_.sign_in(deadline);
  if (!user) return fail(user);
  const auto groups = account_.api().node_groups(deadline);
  if (!groups) return std::unexpected(to_error(groups.error(), "Slurm: its partitions"));
  user_ = *std::move(user);
  shelves_ = shelves_of(*groups, wishes_, user_.home_region);
  return {};
}

Result<std::vector<Offer>> SlurmProvider::offers(const PoolSpec& spec, Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  return fitting_shelves(shelves_, wishes_, spec);
}

Result<std::vector<Offer>> SlurmProvider::catalogue(Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  std::vector<Offer> out;
  for (const Shelf& shelf : shelves_) out.push_back(shelf.offer);
  sort_catalogue(out);
  return out;
}

// ---- Opening

Result<Cluster> SlurmProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  const auto shelf = std::ranges::find_if(
      shelves_, [&](const Shelf& one) { return one.offer.instance_type == offer.instance_type; });
  if (shelf == shelves_.end()) {
    return fail(ErrorKind::exhausted,
                fmt::format("Slurm: {} is no longer there", offer.instance_type),
                "'sinfo -s' lists the partitions");
  }
  auto request = request_of(*shelf, wishes_, spec);
  if (!request) return fail(request);
  auto image = plan_remote_image(spec, world_.variable);
  if (!image) return fail(image);

  const std::string id = new_pool_id(world_, ledger_, kProvider, spec.job_id);
  const Cluster cluster{.id = id,
                        .region = offer.region,
                        .instance_type = offer.instance_type,
                        .details = {head_port_of(id)}};
  auto directory = make_pool_directory(world_, id);
  if (!directory) return fail(directory);
  const Duration lifetime = (spec.timeout > Duration{} ? spec.timeout : kNoLimit) + kMarkGrace;
  request->script = job_script({.limit = std::max(spec.lease, kUnclaimedKeeper)});
  Plan plan{
      .agents = agents_of(spec),
      .image = *std::move(image),
      .order = {.request = *std::move(request),
                .nodes_there = shelf->nodes,
                .tell = [this](const Job& job) { tell_waiting(job); }},
      .mark = {.pool = id, .owner = user_.owner, .expires_s = world_.wall_s() + lifetime / 1s},
      .directory = *std::move(directory)};
  std::map<std::string, std::string> settings = this_computer();
  settings["owner"] = user_.owner;
  settings["account"] = user_.account;
  if (!login_.empty()) settings["login"] = login_;
  if (!spec.job_id.empty()) settings[kJobSetting] = spec.job_id;
  // When its jobs end is not known: they may wait in the queue for longer than the pool's lifetime.
  const Status entered = ledger_.open_pool({.id = id,
                                            .provider = kProvider,
                                            .region = cluster.region,
                                            .settings = std::move(settings),
                                            .opened_s = world_.wall_s()});
  if (!entered) {
    remove_pool_directory(world_, id);
    return fail(entered);
  }
  const std::scoped_lock lock(mutex_);
  plans_.emplace(id, std::move(plan));
  return cluster;
}

// ---- Machines

void SlurmProvider::tell_waiting(const Job& job) {
  if (!world_.tell) return;
  const std::string line = fmt::format("Slurm: job {}: {}", job.id, waiting_text(job));
  const Time now = world_.now();
  if (line == told_.line && now - told_.at < kTellAgain) return;
  told_ = {.line = line, .at = now};
  world_.tell(line);
}

Result<std::vector<Instance>> SlurmProvider::provision(const Cluster& cluster, int count, int,
                                                       Time deadline) {
  const Plan* const plan = find_plan(cluster.id);
  if (plan == nullptr) {
    return fail(ErrorKind::invalid, fmt::format("the pool {} is not open here", cluster.id),
                "call prepare() first");
  }
  LaunchTarget place{.type = cluster.instance_type, .zone = cluster.region};
  place.on_demand_price = 0.0;
  place.spot = false;
  const auto api = account_.launch_api(plan->mark, plan->order);
  const auto machines =
      PoolMachines(book_of(cluster), *api)
          .launch({.count = count, .spot = Spot::Never(), .places = {place}}, deadline);
  if (!machines) return fail(machines);
  std::vector<Instance> out;
  for (const MachineStatus& machine : *machines) out.push_back(machine.instance);
  return out;
}

Result<std::optional<Instance>> SlurmProvider::get_instance(const Cluster& cluster,
                                                            const std::string& id, Time deadline) {
  const auto found = account_.machine_api(cluster)->look_up({id}, deadline);
  if (!found) return fail(found);
  for (const MachineStatus& one : *found) {
    if (one.instance.id == id && one.stage < Stage::stopped) return one.instance;
  }
  return std::nullopt;
}

Status SlurmProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                                Time deadline) {
  const std::unique_ptr<MachineApi> api = account_.machine_api(cluster);
  return PoolMachines(book_of(cluster), *api).terminate(ids, deadline);
}

Status SlurmProvider::teardown(const Cluster& cluster, Time deadline) {
  PoolBook& book = book_of(cluster);
  const std::unique_ptr<MachineApi> api = account_.machine_api(cluster);
  const Status gone = PoolMachines(book, *api).terminate_all(deadline);
  if (!gone) return gone;
  const Status closed = clear_and_close(world_, account_, cluster, book, deadline);
  const std::scoped_lock lock(mutex_);
  plans_.erase(cluster.id);
  if (closed) books_.erase(cluster.id);
  return closed;
}

// ---- The way to them

Connection SlurmProvider::connection(const Cluster& cluster, const Instance& instance) {
  const Plan* const plan = find_plan(cluster.id);
  const auto node = read_job_node(instance.id);
  SKYWARD_CHECK(plan != nullptr && node, "{} was not prepared here", instance.id);
  Connection out{.command = access_.words_to(node->job, instance.private_ip),
                 .shell = true,
                 .stands = true,
                 .agents = plan->agents,
                 .uploads = plan->image.uploads,
                 .permanent_errors = {"Invalid job id", "Job/step already complet"}};
  if (access_.login) {
    out.environment = {{"SSH_ASKPASS_REQUIRE", "never"}};
    std::ranges::copy(permanent_ssh_errors(), std::back_inserter(out.permanent_errors));
  }
  return out;
}

Bootstrap SlurmProvider::bootstrap(const Cluster& cluster, const Instance&) {
  const Plan* const plan = find_plan(cluster.id);
  SKYWARD_CHECK(plan != nullptr, "{} was not prepared here", cluster.id);
  Bootstrap bootstrap = plan->image.bootstrap;
  bootstrap.script = claim_script(kKeeperDirectory) + bootstrap.script;
  bootstrap.end_command = end_keeper_words(kKeeperDirectory);
  return bootstrap;
}

Error SlurmProvider::explain(const Instance& instance, Error error) {
  if (access_.login) error = explain_ssh_error(*access_.login, {}, std::move(error));
  const auto node = read_job_node(instance.id);
  if (!node || !error.hint.empty()) return error;
  error.hint = fmt::format("'scontrol show job {}' tells what became of its job", node->job);
  return error;
}

}  // namespace

Result<std::unique_ptr<Provider>> make_slurm(const ProviderSpec& spec, World world) {
  const std::string login = spec.setting("login");
  auto access = find_access(login);
  if (!access) return fail(access);
  auto wishes = read_wishes(spec);
  if (!wishes) return fail(wishes);
  return std::make_unique<SlurmProvider>(std::move(world), *std::move(access), *std::move(wishes),
                                         login);
}

Result<std::unique_ptr<Provider>> make_slurm(const ProviderSpec& spec) {
  return make_slurm(spec, world_of_this_process());
}

}  // namespace skyward::provider
