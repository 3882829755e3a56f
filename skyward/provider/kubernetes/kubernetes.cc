#include "skyward/provider/kubernetes/kubernetes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/held_ledger.h"
#include "skyward/provider/kubernetes/diagnose.h"
#include "skyward/provider/kubernetes/kubernetes_account.h"
#include "skyward/provider/kubernetes/nodes.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/remote_image.h"
#include "skyward/provider/renting/reaping.h"

namespace skyward::provider {

namespace {

using namespace kubernetes;
using namespace std::chrono_literals;

// Nodes that are started for the pool, and an image of many GB.
constexpr Duration kPodTimeout = 20min;
// From the start of the pod to the agent's first word: its upload through the API server.
constexpr Duration kPodGreetTimeout = 120s;
constexpr Duration kNoLimit = 24h * 3650;  // of a pool without a timeout
constexpr Duration kMarkGrace = 15min;
// The same reason to wait is told again so rarely.
constexpr Duration kTellAgain = 10min;

class KubernetesProvider final : public Provider {
 public:
  KubernetesProvider(World world, Access access, Wishes wishes)
      : world_(std::move(world)), wishes_(std::move(wishes)), account_(world_, std::move(access)) {
    account_.set_tell([this](const std::string& line) { tell_once(line); });
  }

  std::string_view name() const override { return kProvider; }
  Capabilities capabilities() const override {
    return {.spot = false,
            .root = !wishes_.user,
            .fuse = false,
            .preemption = kNotice,
            .provision_timeout = kPodTimeout,
            .greet_timeout = kPodGreetTimeout};
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
    Access access{};
    PodRequest request{};
    Mark mark{};
    PoolDirectory directory{};
  };
  // What was last told.
  struct Told {
    std::string line{};
    Time at{};
  };

  Status look(Time deadline);
  Status look_at_nodes(Time deadline);
  PoolBook& book_of(const Cluster& cluster);
  Result<std::unique_ptr<MachineApi>> machine_api(const Cluster& cluster, Time deadline);
  void tell_once(const std::string& line);
  const Plan* find_plan(const std::string& cluster);

  World world_;
  const Wishes wishes_;
  KubernetesAccount account_;
  SweepAccount user_;           // of the last look
  std::vector<Shelf> shelves_;  // the same
  bool nodes_seen_ = false;     // the same
  Told told_;
  HeldLedger ledger_{[this] { return open_ledger(world_); }};
  std::map<std::string, PoolBook> books_;  // by cluster id
  // connection() is asked while a verb runs.
  std::mutex mutex_;
  std::map<std::string, Plan> plans_;  // by cluster id
};

PoolBook& KubernetesProvider::book_of(const Cluster& cluster) {
  return books_.try_emplace(cluster.id, world_, ledger_, cluster.id).first->second;
}

const KubernetesProvider::Plan* KubernetesProvider::find_plan(const std::string& cluster) {
  const std::scoped_lock lock(mutex_);
  const auto found = plans_.find(cluster);
  return found == plans_.end() ? nullptr : &found->second;
}

Status KubernetesProvider::check(const PoolSpec& spec) {
  if (Status status = check_agent(spec); !status) return status;
  if (Status status = check_architecture(spec); !status) return status;
  if (!spec.volumes.empty()) {
    return fail(ErrorKind::unsupported,
                "Kubernetes: volumes cannot be mounted in pods, which may not use FUSE; nothing "
                "was created",
                "read and write the bucket in the function");
  }
  if (wishes_.user && !spec.image.apt.empty()) {
    return fail(ErrorKind::invalid,
                "Kubernetes: run_as_user= gives pods no right to install the packages of apt=; "
                "nothing was created",
                "take an image= that has them");
  }
  return {};
}

// ---- What there is

// Users of a namespace often may not look at nodes or at others' pods.
Status KubernetesProvider::look_at_nodes(Time deadline) {
  const auto may_not = [](const ApiError& error) { return error.kind() == ErrorKind::denied; };
  const auto nodes = account_.api().nodes(deadline);
  if (!nodes && !may_not(nodes.error())) {
    return std::unexpected(to_error(nodes.error(), "Kubernetes: its nodes"));
  }
  nodes_seen_ = nodes.has_value();
  shelves_.clear();
  if (!nodes_seen_) return {};
  const auto usage = account_.api().usage(deadline);
  if (!usage && !may_not(usage.error())) {
    return std::unexpected(to_error(usage.error(), "Kubernetes: its pods"));
  }
  shelves_ = shelves_of(*nodes, usage.value_or(Usage()), wishes_, user_.home_region);
  return {};
}

Status KubernetesProvider::look(Time deadline) {
  auto user = account_.sign_in(deadline);
  if (!user) return fail(user);
  user_ = *std::move(user);
  if (Status allowed = check_rights(account_.api(), account_.access(), deadline); !allowed) {
    return allowed;
  }
  return look_at_nodes(deadline);
}

Result<std::vector<Offer>> KubernetesProvider::offers(const PoolSpec& spec, Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  const bool is_said = !spec.accelerator || !wishes_.gpu.empty();
  if (!nodes_seen_ && !is_said) {
    return fail(ErrorKind::denied,
                fmt::format("Kubernetes: you may not list nodes, so nothing tells which of them "
                            "have {}; nothing was created",
                            spec.accelerator->name),
                "say it yourself: gpu=\"nvidia.com/gpu\" and the node_selector= of such nodes");
  }
  if (!nodes_seen_ || (wishes_.autoscaled && is_said)) {
    shelves_.push_back(unseen_shelf(spec, wishes_, user_.home_region));
  }
  return fitting_shelves(shelves_, wishes_, spec);
}

Result<std::vector<Offer>> KubernetesProvider::catalogue(Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  std::vector<Offer> out;
  for (const Shelf& shelf : shelves_) out.push_back(shelf.offer);
  sort_catalogue(out);
  return out;
}

// ---- Opening

Result<Cluster> KubernetesProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  const auto shelf = std::ranges::find_if(
      shelves_, [&](const Shelf& one) { return one.offer.instance_type == offer.instance_type; });
  if (shelf == shelves_.end()) {
    return fail(ErrorKind::exhausted,
                fmt::format("Kubernetes: {} is no longer there", offer.instance_type),
                "'kubectl get nodes' lists the nodes");
  }
  auto image = plan_remote_image(spec, world_.variable);
  if (!image) return fail(image);
  const std::string id = new_pool_id(world_, ledger_, kProvider, spec.job_id);
  Cluster cluster{.id = id,
                  .region = offer.region,
                  .instance_type = offer.instance_type,
                  .details = {head_port_of(id)}};
  auto directory = make_pool_directory(world_, id);
  if (!directory) return fail(directory);
  const Duration lifetime = (spec.timeout > Duration{} ? spec.timeout : kNoLimit) + kMarkGrace;
  Plan plan{
      .agents = agents_of(spec),
      .image = *std::move(image),
      .access = account_.access(),
      .request = request_of(*shelf, wishes_, spec),
      .mark = {.pool = id, .owner = user_.owner, .expires_s = world_.wall_s() + lifetime / 1s},
      .directory = *std::move(directory)};
  plan.request.keeper = keeper_script({.limit = std::max(spec.lease, kUnclaimedKeeper)});
  std::map<std::string, std::string> settings = this_computer();
  settings.merge(way_back_of(account_.access()));
  settings["owner"] = user_.owner;
  settings["account"] = user_.account;
  if (!spec.job_id.empty()) settings[kJobSetting] = spec.job_id;
  const Status entered = ledger_.open_pool({.id = id,
                                            .provider = kProvider,
                                            .region = cluster.region,
                                            .settings = std::move(settings),
                                            .opened_s = world_.wall_s(),
                                            .expires_s = plan.mark.expires_s});
  if (!entered) {
    remove_pool_directory(world_, id);
    return fail(entered);
  }
  const std::scoped_lock lock(mutex_);
  plans_.emplace(id, std::move(plan));
  return cluster;
}

// ---- Machines

void KubernetesProvider::tell_once(const std::string& line) {
  if (!world_.tell) return;
  const Time now = world_.now();
  if (line == told_.line && now - told_.at < kTellAgain) return;
  told_ = {.line = line, .at = now};
  world_.tell(line);
}

Result<std::unique_ptr<MachineApi>> KubernetesProvider::machine_api(const Cluster& cluster,
                                                                    Time deadline) {
  if (const auto signed_in = account_.sign_in(deadline); !signed_in) return fail(signed_in);
  return account_.machine_api(cluster);
}

Result<std::vector<Instance>> KubernetesProvider::provision(const Cluster& cluster, int count, int,
                                                            Time deadline) {
  const Plan* const plan = find_plan(cluster.id);
  if (plan == nullptr) {
    return fail(ErrorKind::invalid, fmt::format("the pool {} is not open here", cluster.id),
                "call prepare() first");
  }
  LaunchTarget place{.type = cluster.instance_type, .zone = plan->access.name_space};
  place.on_demand_price = 0.0;
  place.spot = false;
  PodRequest request = plan->request;
  request.life = std::chrono::seconds(plan->mark.expires_s - world_.wall_s());
  const auto api = account_.launch_api(plan->mark, std::move(request));
  const auto machines =
      PoolMachines(book_of(cluster), *api)
          .launch({.count = count, .spot = Spot::Never(), .places = {place}}, deadline);
  if (!machines) return fail(machines);
  std::vector<Instance> out;
  for (const MachineStatus& machine : *machines) out.push_back(machine.instance);
  return out;
}

Result<std::optional<Instance>> KubernetesProvider::get_instance(const Cluster& cluster,
                                                                 const std::string& id,
                                                                 Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  const auto found = (*api)->look_up({id}, deadline);
  if (!found) return fail(found);
  for (const MachineStatus& one : *found) {
    if (one.instance.id == id && one.stage < Stage::stopped) return one.instance;
  }
  return std::nullopt;
}

Status KubernetesProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                                     Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  return PoolMachines(book_of(cluster), **api).terminate(ids, deadline);
}

Status KubernetesProvider::teardown(const Cluster& cluster, Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  PoolBook& book = book_of(cluster);
  const Status gone = PoolMachines(book, **api).terminate_all(deadline);
  if (!gone) return gone;
  const Status closed = clear_and_close(world_, account_, cluster, book, deadline);
  const std::scoped_lock lock(mutex_);
  plans_.erase(cluster.id);
  if (closed) books_.erase(cluster.id);
  return closed;
}

// ---- The way to them

Connection KubernetesProvider::connection(const Cluster& cluster, const Instance& instance) {
  const Plan* const plan = find_plan(cluster.id);
  SKYWARD_CHECK(plan != nullptr, "{} was not prepared here", instance.id);
  return {.command = plan->access.words(
              {"exec", "--stdin", instance.id, "--container", kContainer, "--", "sh", "-c"}),
          .environment = plan->access.environment(),
          .shell = true,
          .stands = true,
          .agents = plan->agents,
          .uploads = plan->image.uploads,
          .permanent_errors = {"Error from server (NotFound)", "in a completed pod",
                               "Error from server (Forbidden)"}};
}

Bootstrap KubernetesProvider::bootstrap(const Cluster& cluster, const Instance&) {
  const Plan* const plan = find_plan(cluster.id);
  SKYWARD_CHECK(plan != nullptr, "{} was not prepared here", cluster.id);
  Bootstrap bootstrap = plan->image.bootstrap;
  bootstrap.script = claim_script(kKeeperDirectory) + bootstrap.script;
  bootstrap.end_command = end_keeper_words(kKeeperDirectory);
  return bootstrap;
}

Error KubernetesProvider::explain(const Instance& instance, Error error) {
  if (!error.hint.empty()) return error;
  error.hint = error.message.contains("\"bash\"")
                   ? "the container image needs bash: take another one with image="
                   : fmt::format("'kubectl describe pod {}' tells what became of it", instance.id);
  return error;
}

}  // namespace

Result<std::unique_ptr<Provider>> make_kubernetes(const ProviderSpec& spec, World world) {
  auto wishes = read_wishes(spec);
  if (!wishes) return fail(wishes);
  Access access = access_of(world, spec);
  return std::make_unique<KubernetesProvider>(std::move(world), std::move(access),
                                              *std::move(wishes));
}

Result<std::unique_ptr<Provider>> make_kubernetes(const ProviderSpec& spec) {
  return make_kubernetes(spec, world_of_this_process());
}

}  // namespace skyward::provider
