#include "skyward/provider/fake/fake.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <stop_token>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/io/locked_directory.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/fake/account.h"
#include "skyward/provider/fake/machine_process.h"
#include "skyward/provider/renting/renting.h"

namespace skyward::provider::fake {

namespace {

using namespace std::chrono_literals;

constexpr const char* kDirectoryPrefix = "fake-cloud-";
constexpr Duration kChargesInterval = 500ms;

class FakeProvider final : public Provider {
 public:
  FakeProvider(const ProviderSpec& spec, ClientComputer computer)
      : cloud_(std::move(computer.cloud)),
        local_(make_local({.name = "local", .settings = spec.settings}, computer.local)) {
    // Other pools of the same computer keep launching.
    computer.world.launching = std::stop_source();
    renting_ = make_renting(
        computer.world,
        std::make_unique<FakeRentals>(cloud_, computer.world, std::move(computer.owner), facts()));
  }

  std::string_view name() const override { return renting_->name(); }
  Capabilities capabilities() const override {
    Capabilities facts = renting_->capabilities();
    facts.billing.tells_ends = false;  // its machines keep no lease, and end before our eyes
    return facts;
  }
  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override {
    return renting_->offers(spec, cloud_->there(deadline));
  }
  Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) override;
  Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                          Time deadline) override;
  Result<std::optional<Instance>> get_instance(const Cluster& cluster, const std::string& id,
                                               Time deadline) override;
  Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                   Time deadline) override;
  Status teardown(const Cluster& cluster, Time deadline) override;
  std::vector<std::string> standing(const Cluster& cluster) override {
    return renting_->standing(cluster);
  }
  void set_meanwhile(std::function<void()> run) override {
    renting_->set_meanwhile(std::move(run));
  }
  void set_tell(std::function<void(const std::string&)> tell) override {
    renting_->set_tell(std::move(tell));
  }
  void stop_launching() override { renting_->stop_launching(); }
  Time billing_time() const override { return cloud_->present(); }
  Result<std::vector<Charge>> charges(const Cluster& cluster, const std::vector<std::string>& ids,
                                      Time deadline) override {
    return renting_->charges(cluster, ids, cloud_->there(deadline));
  }
  Status tend(const Cluster& cluster, Time deadline) override {
    return renting_->tend(cluster, cloud_->there(deadline));
  }
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) override;

 private:
  // What stands for a pool's machines on this computer.
  struct Bodies {
    Cluster local{};
    std::map<std::string, Instance> machines{};  // by the cloud's id, as the local provider has it
    std::map<std::string, MachineProcess> processes{};
  };

  Capabilities facts() const;
  static PoolSpec on_this_machine(PoolSpec spec);
  Result<Instance> start_body(Bodies& bodies, const Instance& machine, int node, Time deadline);

  const std::shared_ptr<Simulation> cloud_;
  const std::unique_ptr<Provider> local_;
  std::unique_ptr<Provider> renting_;
  // connection() is asked while a verb runs.
  std::mutex mutex_;
  std::map<std::string, Bodies> bodies_;  // by cluster id
};

Capabilities FakeProvider::facts() const {
  Capabilities facts = local_->capabilities();
  facts.spot = true;
  facts.real_devices = false;
  facts.preemption = kNoticeFile;
  facts.billing = cloud_->ask([](Cloud& cloud, Time) { return cloud.config().billing; });
  facts.billing.prices_change = true;
  facts.charges_interval = kChargesInterval;
  if (cloud_->speed() > 0) facts.clock_rate = cloud_->speed();
  return facts;
}

// What is asked of the machines is for the cloud to have, not for this computer.
PoolSpec FakeProvider::on_this_machine(PoolSpec spec) {
  spec.accelerator.reset();
  spec.cpus = 0;
  spec.memory_mb = 0;
  spec.machine.clear();
  spec.architecture.clear();
  return spec;
}

Status FakeProvider::check(const PoolSpec& spec) {
  Status status = local_->check(on_this_machine(spec));
  if (!status)
    status.error().message.insert(0,
                                  "the machines of a FakeCloud are processes of this computer: ");
  return status;
}

Result<Cluster> FakeProvider::prepare(const PoolSpec& spec, const Offer& offer, Time deadline) {
  const auto local = local_->prepare(on_this_machine(spec), {}, deadline);
  if (!local) return fail(local);
  auto cluster = renting_->prepare(spec, offer, cloud_->there(deadline));
  if (!cluster) {
    (void)local_->teardown(*local, deadline);
    return cluster;
  }
  cluster->details = local->details;
  cluster->head_port = local->head_port;
  const std::scoped_lock lock(mutex_);
  bodies_.emplace(cluster->id, Bodies{.local = *local});
  return cluster;
}

Result<std::vector<Instance>> FakeProvider::provision(const Cluster& cluster, int count,
                                                      int first_node, Time deadline) {
  const auto machines = renting_->provision(cluster, count, first_node, cloud_->there(deadline));
  if (!machines) return fail(machines);
  std::vector<Instance> out;
  for (const Instance& machine : *machines) {
    const int node = first_node + static_cast<int>(out.size());
    auto instance = start_body(bodies_.at(cluster.id), machine, node, deadline);
    if (!instance) {
      std::vector<std::string> ids;
      for (const Instance& one : *machines) ids.push_back(one.id);
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
Result<Instance> FakeProvider::start_body(Bodies& bodies, const Instance& machine, int node,
                                          Time deadline) {
  std::unique_lock lock(mutex_);
  const auto made = local_->provision(bodies.local, 1, node, deadline);
  if (!made) return fail(made);
  const Instance& body = made->front();
  const MachineProcess process(local_->connection(bodies.local, body).directory);
  bodies.machines[machine.id] = body;
  bodies.processes.insert_or_assign(machine.id, process);
  lock.unlock();
  cloud_->plug(machine.id, {.notice =
                                [process](Duration left, std::string_view reason) {
                                  process.announce_end(left, reason);
                                },
                            .power_off = [process] { process.power_off(); }});
  const bool stands = cloud_->ask([&](Cloud& cloud, Time) {
    cloud.assign(machine.id, node);
    return cloud.stands(machine.id);
  });
  if (!stands) process.power_off();  // it was preempted before it was plugged in
  Instance out = body;
  out.id = machine.id;
  out.spot = machine.spot;
  out.instance_type = machine.instance_type;
  out.price_on_demand = machine.price_on_demand;
  out.price_spot = machine.price_spot;
  return out;
}

Result<std::optional<Instance>> FakeProvider::get_instance(const Cluster& cluster,
                                                           const std::string& id, Time deadline) {
  auto found = renting_->get_instance(cluster, id, cloud_->there(deadline));
  if (found && *found) (*found)->private_ip = "127.0.0.1";
  return found;
}

Status FakeProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                               Time deadline) {
  Status status = renting_->terminate(cluster, ids, cloud_->there(deadline));
  if (!status) return status;
  const auto bodies = bodies_.find(cluster.id);
  if (bodies == bodies_.end()) return {};
  std::vector<std::string> own;
  for (const std::string& id : ids) {
    cloud_->unplug(id);
    const std::scoped_lock lock(mutex_);
    const auto machine = bodies->second.machines.find(id);
    if (machine != bodies->second.machines.end()) own.push_back(machine->second.id);
  }
  return local_->terminate(bodies->second.local, own, deadline);
}

Status FakeProvider::teardown(const Cluster& cluster, Time deadline) {
  Status closed = renting_->teardown(cluster, cloud_->there(deadline));
  if (const auto bodies = bodies_.find(cluster.id); closed && bodies != bodies_.end()) {
    closed = local_->teardown(bodies->second.local, deadline);
    const std::scoped_lock lock(mutex_);
    if (closed) bodies_.erase(bodies);
  }
  return closed;
}

// ---- The way to them

Connection FakeProvider::connection(const Cluster& cluster, const Instance& instance) {
  const std::scoped_lock lock(mutex_);
  const auto bodies = bodies_.find(cluster.id);
  SKYWARD_CHECK(bodies != bodies_.end(), "{} was not prepared here", cluster.id);
  Connection connection =
      local_->connection(bodies->second.local, bodies->second.machines.at(instance.id));
  connection.command = bodies->second.processes.at(instance.id).command(connection.command);
  return connection;
}

Bootstrap FakeProvider::bootstrap(const Cluster& cluster, const Instance& instance) {
  cloud_->ask([&](Cloud& cloud, Time now) { cloud.claim(now, instance.id); });
  const std::scoped_lock lock(mutex_);
  const auto bodies = bodies_.find(cluster.id);
  SKYWARD_CHECK(bodies != bodies_.end(), "{} was not prepared here", cluster.id);
  return local_->bootstrap(bodies->second.local, bodies->second.machines.at(instance.id));
}

}  // namespace

Result<std::shared_ptr<Simulation>> start_simulation(CloudConfig config, double speed) {
  const std::string root = surroundings_of_this_process().state_root;
  if (Status status = io::ensure_private_directory(root); !status) return fail(status);
  io::LockedDirectory::remove_abandoned(
      root, [](std::string_view name) { return name.starts_with(kDirectoryPrefix); });
  auto directory = io::LockedDirectory::make(root, kDirectoryPrefix + io::random_hex(kJobIdDigits));
  if (!directory) return fail(directory);
  const std::string path = (*directory)->path();
  return Simulation::start({.config = std::move(config),
                            .speed = speed,
                            .clock = {},
                            .directory = path,
                            .held = *std::move(directory)});
}

ClientComputer make_client_computer(std::shared_ptr<Simulation> cloud,
                                    const std::string& state_directory) {
  ClientComputer computer{.cloud = std::move(cloud), .world = {}};
  computer.world = computer.cloud->computer(state_directory);
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
    return fail(ErrorKind::invalid, "this pool's fake cloud does not exist, or no longer does",
                "create a FakeCloud in this program, and keep it at least as long as its pools");
  }
  const std::string state = cloud->directory();
  return make_fake(spec, make_client_computer(std::move(cloud), state));
}

}  // namespace skyward::provider::fake
