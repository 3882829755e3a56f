#include "skyward/provider/fake/fake.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <span>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/io/file_lock.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/fake/machine_process.h"
#include "skyward/provider/fake/rental.h"
#include "skyward/provider/first_boot.h"
#include "skyward/provider/held_ledger.h"
#include "skyward/provider/open_pools.h"

namespace skyward::provider::fake {

namespace {

using namespace std::chrono_literals;

constexpr const char* kDirectoryPrefix = "fake-cloud-";
// A machine lives so much longer than its pool may: boot and teardown.
constexpr Duration kBootGrace = 900s;
constexpr Duration kNoTimeout = 24h * 3650;  // of machines whose pool gave itself no time
constexpr Duration kChargesInterval = 500ms;

class FakeProvider final : public Provider {
 public:
  FakeProvider(const ProviderSpec& spec, ClientComputer computer)
      : computer_(on_its_own(std::move(computer))),
        client_(computer_.cloud, computer_.world),
        local_(make_local({.name = "local", .settings = spec.settings}, computer_.local)),
        ledger_(computer_.open_ledger) {}

  std::string_view name() const override { return "fake"; }
  Capabilities capabilities() const override {
    Capabilities facts = local_->capabilities();
    facts.spot = true;
    facts.preemption = kNoticeFile;
    facts.billing = computer_.cloud->ask([](Cloud& cloud, Time) { return cloud.config().billing; });
    facts.charges_interval = kChargesInterval;
    if (computer_.cloud->speed() > 0) facts.clock_rate = computer_.cloud->speed();
    return facts;
  }

  Status check(const PoolSpec& spec) override { return local_->check(on_this_machine(spec)); }
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) override;
  Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                          Time deadline) override;
  Result<std::optional<Instance>> get_instance(const Cluster& cluster, const std::string& id,
                                               Time deadline) override;
  Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                   Time deadline) override;
  Status teardown(const Cluster& cluster, Time deadline) override;
  void stop_buying() override { computer_.world.buying.request_stop(); }
  Time billing_time() const override { return computer_.cloud->present(); }
  Result<std::vector<Charge>> charges(const Cluster& cluster, const std::vector<std::string>& ids,
                                      Time deadline) override;
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) override;

 private:
  // A pool that this process has open.
  struct Plan {
    PoolSpec spec{};
    Cluster local{};
    PoolDirectory directory{};
    std::vector<Offer> offers{};
    Tags tags{};
    std::int64_t expires_s = 0;  // seconds since 1970, there
    std::string group{}, key{}, zone{};
    std::map<std::string, Instance> machines{};  // by the cloud's id, as the local provider has it
    std::map<std::string, MachineProcess> processes{};
  };

  // Other pools of the same computer go on buying.
  static ClientComputer on_its_own(ClientComputer computer) {
    computer.world.buying = std::stop_source();
    return computer;
  }
  static PoolSpec on_this_machine(PoolSpec spec);
  Status furnish(const Cluster& cluster, Plan& plan, Time until);
  LaunchSpec launch_spec(const Plan& plan, int count) const;
  LaunchRequest request_of(const Plan& plan, int first_node) const;
  Result<Instance> plug_in(Plan& plan, const Instance& machine, int node, Time deadline);
  PoolBook& book_of(const Cluster& cluster);
  Status unplug(const Cluster& cluster, const std::vector<std::string>& ids, Time deadline);

  const ClientComputer computer_;
  Client client_;
  const std::unique_ptr<Provider> local_;
  HeldLedger ledger_;
  std::map<std::string, PoolBook> books_;  // by cluster id
  std::vector<Offer> ranked_;              // of the last offers()
  // connection() is asked while a verb runs.
  std::mutex mutex_;
  std::map<std::string, Plan> plans_;  // by cluster id
};

// What is asked of the machines is for the cloud to have, not for this computer.
PoolSpec FakeProvider::on_this_machine(PoolSpec spec) {
  spec.accelerator.reset();
  spec.cpus = 0;
  spec.memory_mb = 0;
  spec.machine.clear();
  spec.architecture.clear();
  return spec;
}

Result<std::vector<Offer>> FakeProvider::offers(const PoolSpec& spec, Time deadline) {
  const auto types = client_.call(computer_.cloud->there(deadline),
                                  [](Cloud& cloud, Time now) { return cloud.list_types(now); });
  if (!types) return std::unexpected(to_error(types.error(), "ListTypes"));
  std::vector<Offer> all;
  for (const MachineType& type : *types) {
    if (!spec.machine.empty() && spec.machine != type.name) continue;
    all.push_back({.instance_type = type.name,
                   .region = kRegion,
                   .cpus = type.cpus,
                   .memory_gb = type.memory_gb,
                   .accelerator = type.accelerator,
                   .accelerator_count = type.accelerator.empty() ? 0.0 : 1.0,
                   .accelerator_memory_gb = type.accelerator_memory_gb,
                   .price_on_demand = to_dollars(type.on_demand),
                   .price_spot = to_dollars(type.spot)});
  }
  const OfferRequest request{.accelerator = spec.accelerator,
                             .cpus = std::max(spec.cpus, 1.0),
                             .memory_mb = std::max<std::int64_t>(spec.memory_mb, 1),
                             .prefer_spot = spec.spot.kind != SpotKind::never};
  const auto order = rank_offers(all, request);
  if (!order) return fail(order);
  ranked_.clear();
  for (const std::size_t position : *order) ranked_.push_back(all[position]);
  return ranked_;
}

// ---- A pool's own things

Result<Cluster> FakeProvider::prepare(const PoolSpec& spec, const Offer& offer, Time deadline) {
  const World& world = computer_.world;
  const Time until = computer_.cloud->there(deadline);
  const std::string id = new_pool_id(world, ledger_, "fake", spec.job_id);
  const Duration lifetime = (spec.timeout > Duration{} ? spec.timeout : kNoTimeout) + kBootGrace;
  Plan plan{.spec = spec};
  plan.expires_s = world.wall_s() + lifetime / 1s;
  plan.tags = {
      {kPoolTag, id}, {kOwnerTag, computer_.owner}, {kExpiresTag, std::to_string(plan.expires_s)}};
  for (const Offer& one : ranked_) {
    if (one.instance_type == offer.instance_type) plan.offers.push_back(one);
  }
  auto directory = make_pool_directory(world, id);
  if (!directory) return fail(directory);
  plan.directory = *std::move(directory);
  const auto local = local_->prepare(on_this_machine(spec), {}, deadline);
  if (!local) {
    remove_pool_directory(world, id);
    return fail(local);
  }
  plan.local = *local;
  Cluster cluster{
      .id = id, .region = kRegion, .instance_type = offer.instance_type, .details = local->details};
  Status status = ledger_.open_pool({.id = id,
                                     .provider = "fake",
                                     .region = kRegion,
                                     .settings = {{"owner", computer_.owner}},
                                     .opened_s = world.wall_s(),
                                     .expires_s = plan.expires_s});
  if (!status) {
    (void)local_->teardown(plan.local, deadline);
    remove_pool_directory(world, id);
    return fail(status);
  }
  status = furnish(cluster, plan, until);
  {
    const std::scoped_lock lock(mutex_);
    plans_.emplace(id, std::move(plan));
  }
  if (status) return cluster;
  if (const Status cleaned = teardown(cluster, deadline); !cleaned) {
    status.error().message += "; " + cleaned.error().message;
  }
  return fail(status);
}

PoolBook& FakeProvider::book_of(const Cluster& cluster) {
  return books_.try_emplace(cluster.id, computer_.world, ledger_, cluster.id).first->second;
}

// What machines need before they can be launched.
Status FakeProvider::furnish(const Cluster& cluster, Plan& plan, Time until) {
  PoolBook& book = book_of(cluster);
  const auto key = make_item(client_, book, "key_pair", plan.tags, until);
  if (!key) return fail(key);
  const auto group = make_item(client_, book, "security_group", plan.tags, until);
  if (!group) return fail(group);
  plan.key = *key;
  plan.group = *group;
  return {};
}

// ---- Machines

LaunchSpec FakeProvider::launch_spec(const Plan& plan, int count) const {
  LaunchSpec launch{.count = count, .spot = plan.spec.spot};
  const std::vector<std::string> zones =
      computer_.cloud->ask([](Cloud& cloud, Time) { return cloud.zones(); });
  for (const Offer& offer : plan.offers) {
    for (const std::string& zone : zones) {
      LaunchTarget place{.type = offer.instance_type, .zone = zone};
      place.spot_price = offer.price_spot;
      place.on_demand_price = offer.price_on_demand;
      launch.places.push_back(std::move(place));
    }
  }
  std::ranges::stable_partition(launch.places,
                                [&](const LaunchTarget& place) { return place.zone == plan.zone; });
  return launch;
}

// What all launches have in common.
LaunchRequest FakeProvider::request_of(const Plan& plan, int first_node) const {
  LaunchRequest request;
  request.group = plan.group;
  request.key = plan.key;
  if (plan.spec.max_hourly_cost) {
    request.most_hourly = to_micro_dollars(*plan.spec.max_hourly_cost / plan.spec.nodes);
  }
  request.lifetime = std::chrono::seconds(plan.expires_s - computer_.world.wall_s());
  request.unclaimed = kUnclaimed;
  request.tags = plan.tags;
  request.tags[kNodeTag] = std::to_string(first_node);
  return request;
}

Result<std::vector<Instance>> FakeProvider::provision(const Cluster& cluster, int count,
                                                      int first_node, Time deadline) {
  const auto found = plans_.find(cluster.id);
  if (found == plans_.end()) {
    return fail(ErrorKind::invalid, fmt::format("the pool {} is not open here", cluster.id),
                "call prepare() first");
  }
  Plan& plan = found->second;
  if (computer_.world.wall_s() >= plan.expires_s) {
    return fail(ErrorKind::denied,
                fmt::format("by the fake cloud's clock, this pool's timeout={:g} has expired",
                            seconds(plan.spec.timeout)),
                "open it with a longer timeout=, or let less time pass there");
  }
  Rental rental(client_, cluster.id, request_of(plan, first_node));
  const auto machines = PoolMachines(book_of(cluster), rental)
                            .launch(launch_spec(plan, count), computer_.cloud->there(deadline));
  if (!machines) return fail(machines);
  plan.zone = machines->front().zone;
  std::vector<Instance> out;
  for (const MachineStatus& machine : *machines) {
    auto instance = plug_in(plan, machine.instance, first_node, deadline);
    if (!instance) {
      std::vector<std::string> ids;
      for (const MachineStatus& one : *machines) ids.push_back(one.instance.id);
      Error why = instance.error();
      if (Status ended = terminate(cluster, ids, deadline); !ended) {
        why.message += "; " + ended.error().message;
      }
      return std::unexpected(std::move(why));
    }
    out.push_back(*std::move(instance));
  }
  return out;
}

// The process of this computer that is the machine.
Result<Instance> FakeProvider::plug_in(Plan& plan, const Instance& machine, int node,
                                       Time deadline) {
  std::unique_lock lock(mutex_);
  const auto made = local_->provision(plan.local, 1, node, deadline);
  if (!made) return fail(made);
  const Instance& body = made->front();
  const MachineProcess process(local_->connection(plan.local, body).directory);
  plan.machines[machine.id] = body;
  plan.processes.insert_or_assign(machine.id, process);
  lock.unlock();
  computer_.cloud->plug(machine.id, {.notice =
                                         [process](Duration left, std::string_view reason) {
                                           process.announce_end(left, reason);
                                         },
                                     .power_off = [process] { process.power_off(); }});
  // It may have been preempted before it was plugged in.
  if (!computer_.cloud->ask([&](Cloud& cloud, Time) { return cloud.stands(machine.id); })) {
    process.power_off();
  }
  Instance out = body;
  out.id = machine.id;
  out.spot = machine.spot;
  out.instance_type = machine.instance_type;
  out.price_on_demand = machine.price_on_demand;
  out.price_spot = machine.price_spot;
  return out;
}

Status FakeProvider::unplug(const Cluster& cluster, const std::vector<std::string>& ids,
                            Time deadline) {
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end()) return {};
  std::vector<std::string> bodies;
  for (const std::string& id : ids) {
    computer_.cloud->unplug(id);
    const std::scoped_lock lock(mutex_);
    const auto machine = plan->second.machines.find(id);
    if (machine == plan->second.machines.end()) continue;
    bodies.push_back(machine->second.id);
  }
  return local_->terminate(plan->second.local, bodies, deadline);
}

Result<std::optional<Instance>> FakeProvider::get_instance(const Cluster& cluster,
                                                           const std::string& id, Time deadline) {
  const auto found = Rental(client_, cluster.id).look_up({id}, computer_.cloud->there(deadline));
  if (!found) return fail(found);
  for (const MachineStatus& one : *found) {
    if (one.stage >= Stage::terminating) continue;
    Instance out = one.instance;
    out.private_ip = "127.0.0.1";
    return out;
  }
  return std::nullopt;
}

Status FakeProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                               Time deadline) {
  Rental rental(client_, cluster.id);
  PoolMachines machines(book_of(cluster), rental);
  if (Status status = machines.terminate(ids, computer_.cloud->there(deadline)); !status)
    return status;
  return unplug(cluster, ids, deadline);
}

Status FakeProvider::teardown(const Cluster& cluster, Time deadline) {
  const Time until = computer_.cloud->there(deadline);
  PoolBook& book = book_of(cluster);
  Rental rental(client_, cluster.id);
  PoolMachines machines(book, rental);
  if (Status status = machines.terminate_all(until); !status) return status;
  if (Status status = remove_items(client_, book, until); !status) return status;
  if (const auto plan = plans_.find(cluster.id); plan != plans_.end()) {
    if (Status status = local_->teardown(plan->second.local, deadline); !status) return status;
    const std::scoped_lock lock(mutex_);
    plans_.erase(plan);
  }
  remove_pool_directory(computer_.world, cluster.id);
  Status closed = machines.close_when_clear();
  books_.erase(cluster.id);
  return closed;
}

// Of machines that have ended: how long they stood by the cloud's clock. Until then the pool's own
// meter runs by ours, and would take both for one.
Result<std::vector<Charge>> FakeProvider::charges(const Cluster& cluster,
                                                  const std::vector<std::string>& ids, Time) {
  const std::vector<LedgerEntry>& wasted = book_of(cluster).wasted();
  return computer_.cloud->ask([&](Cloud& cloud, Time now) {
    std::vector<Charge> out;
    const auto add_bill = [&](const std::string& id) {
      std::vector<Charge> steps = cloud.charges(now, id);
      if (!steps.empty() && steps.front().ended) std::ranges::move(steps, std::back_inserter(out));
    };
    for (const std::string& id : ids) add_bill(id);
    for (const LedgerEntry& entry : wasted) {
      const std::size_t before = out.size();
      add_bill(entry.id);
      for (Charge& charge : std::span(out).subspan(before)) {
        charge.failed_launch = true;
        charge.spot = entry.spot;
      }
    }
    return out;
  });
}

// ---- The way to them

Connection FakeProvider::connection(const Cluster& cluster, const Instance& instance) {
  const std::scoped_lock lock(mutex_);
  const auto plan = plans_.find(cluster.id);
  SKYWARD_CHECK(plan != plans_.end(), "{} was not prepared here", cluster.id);
  Connection connection =
      local_->connection(plan->second.local, plan->second.machines.at(instance.id));
  connection.command = plan->second.processes.at(instance.id).command(connection.command);
  return connection;
}

Bootstrap FakeProvider::bootstrap(const Cluster& cluster, const Instance& instance) {
  computer_.cloud->ask([&](Cloud& cloud, Time now) { cloud.claim(now, instance.id); });
  const std::scoped_lock lock(mutex_);
  const auto plan = plans_.find(cluster.id);
  SKYWARD_CHECK(plan != plans_.end(), "{} was not prepared here", cluster.id);
  return local_->bootstrap(plan->second.local, plan->second.machines.at(instance.id));
}

}  // namespace

Result<std::shared_ptr<Simulation>> start_simulation(CloudConfig config, double speed) {
  const std::string root = surroundings_of_this_process().state_root;
  if (Status status = io::ensure_private_directory(root); !status) return fail(status);
  for (const std::string& name : io::list_directory(root)) {
    if (!name.starts_with(kDirectoryPrefix)) continue;
    // A lock that can be taken belonged to a process that is gone.
    const std::string path = root + "/" + name;
    if (io::is_directory(path) && io::FileLock::try_lock(path + "/lock"))
      (void)io::remove_tree(path);
  }
  const std::string directory =
      fmt::format("{}/{}{}", root, kDirectoryPrefix, io::random_hex(kJobIdDigits));
  if (Status status = io::make_private_directory(directory); !status) return fail(status);
  auto lock = io::FileLock::try_lock(directory + "/lock");
  if (!lock) return fail(ErrorKind::unavailable, "cannot lock " + directory, "try again");
  return Simulation::start({.config = std::move(config),
                            .speed = speed,
                            .clock = {},
                            .directory = directory,
                            .lock = std::move(lock)});
}

ClientComputer make_client_computer(std::shared_ptr<Simulation> cloud,
                                    const std::string& state_directory) {
  ClientComputer computer{.cloud = std::move(cloud), .world = {}, .open_ledger = {}};
  computer.world = computer.cloud->computer(state_directory);
  computer.open_ledger = [world = computer.world] { return open_ledger(world); };
  computer.local = surroundings_of_this_process();
  return computer;
}

std::unique_ptr<Provider> make_fake(const ProviderSpec& spec, ClientComputer computer) {
  return std::make_unique<FakeProvider>(spec, std::move(computer));
}

Result<std::unique_ptr<Provider>> make_fake(const ProviderSpec& spec) {
  const auto name = spec.settings.find("cloud");
  auto cloud = name == spec.settings.end() ? nullptr : Simulation::find(name->second);
  if (!cloud) {
    return fail(ErrorKind::invalid, "the fake cloud of this pool is not there (any more)",
                "make a FakeCloud in this program, and keep it for as long as its pools");
  }
  const std::string state = cloud->directory();
  return make_fake(spec, make_client_computer(std::move(cloud), state));
}

}  // namespace skyward::provider::fake
