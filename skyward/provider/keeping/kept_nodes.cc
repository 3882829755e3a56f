#include "skyward/provider/keeping/kept_nodes.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/keeping/keeping.h"
#include "skyward/provider/renting/reaping.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

constexpr Duration kNoLimit = 24h * 3650;  // of a pool without a timeout
constexpr Duration kMarkGrace = 15min;
// The same reason to wait is told again so rarely.
constexpr Duration kTellAgain = 10min;

}  // namespace

PoolBook& KeptNodes::book_of(const Cluster& cluster) {
  return books_.try_emplace(cluster.id, world_, ledger_, cluster.id).first->second;
}

const KeptNodes::Plan& KeptNodes::plan_of(const Cluster& cluster) const {
  const auto found = plans_.find(cluster.id);
  SKYWARD_CHECK(found != plans_.end(), "{} was not prepared here", cluster.id);
  return found->second;
}

void KeptNodes::tell_once(const std::string& line) {
  if (!world_.tell) return;
  const Time now = world_.now();
  if (line == told_.line && now - told_.at < kTellAgain) return;
  told_ = {.line = line, .at = now};
  world_.tell(line);
}

Status KeptNodes::check(const PoolSpec& spec) {
  if (Status status = check_agent(spec); !status) return status;
  if (Status status = check_architecture(spec); !status) return status;
  return check_wishes(spec);
}

Result<std::vector<Offer>> KeptNodes::catalogue(Time deadline) {
  auto offers = all_offers(deadline);
  if (offers) sort_catalogue(*offers);
  return offers;
}

Result<Cluster> KeptNodes::open_pool(const PoolSpec& spec, const Offer& offer, Opening opening) {
  auto image = plan_remote_image(spec, world_.variable);
  if (!image) return fail(image);
  const std::string id = new_pool_id(world_, ledger_, name_, spec.job_id);
  Cluster cluster{.id = id,
                  .region = offer.region,
                  .instance_type = offer.instance_type,
                  .head_port = head_port_of(id)};
  auto directory = make_pool_directory(world_, id);
  if (!directory) return fail(directory);
  const Duration lifetime = (spec.timeout > Duration{} ? spec.timeout : kNoLimit) + kMarkGrace;
  const std::int64_t expires_s = world_.wall_s() + lifetime / 1s;
  std::map<std::string, std::string> settings = this_computer();
  settings.merge(opening.way_back);
  settings["owner"] = opening.user.owner;
  settings["account"] = opening.user.account;
  if (!spec.job_id.empty()) settings[kJobSetting] = spec.job_id;
  const Status entered = ledger_.open_pool({.id = id,
                                            .provider = name_,
                                            .region = cluster.region,
                                            .settings = std::move(settings),
                                            .opened_s = world_.wall_s(),
                                            .expires_s = opening.queues ? 0 : expires_s});
  if (!entered) {
    remove_pool_directory(world_, id);
    return fail(entered);
  }
  Plan plan{.agents = agents_of(spec),
            .image = *std::move(image),
            .mark = {.pool = id, .owner = opening.user.owner, .expires_s = expires_s},
            .zone = std::move(opening.zone),
            .launch_api = std::move(opening.launch_api),
            .directory = *std::move(directory)};
  const std::scoped_lock lock(mutex_);
  plans_.emplace(id, std::move(plan));
  return cluster;
}

Result<std::vector<Instance>> KeptNodes::provision(const Cluster& cluster, int count, int,
                                                   Time deadline) {
  const auto found = plans_.find(cluster.id);
  if (found == plans_.end()) {
    return fail(ErrorKind::invalid, fmt::format("the pool {} is not open here", cluster.id),
                "call prepare() first");
  }
  const Plan& plan = found->second;
  LaunchTarget place{.type = cluster.instance_type, .zone = plan.zone};
  place.on_demand_price = 0.0;
  place.spot = false;
  const auto api = plan.launch_api(plan.mark);
  const auto machines =
      PoolMachines(book_of(cluster), *api)
          .launch({.count = count, .spot = Spot::Never(), .places = {place}}, deadline);
  if (!machines) return fail(machines);
  std::vector<Instance> out;
  for (const MachineStatus& machine : *machines) out.push_back(machine.instance);
  return out;
}

Result<std::optional<Instance>> KeptNodes::get_instance(const Cluster& cluster,
                                                        const std::string& id, Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  const auto found = (*api)->look_up({id}, deadline);
  if (!found) return fail(found);
  for (const MachineStatus& one : *found) {
    if (one.instance.id == id && one.stage < Stage::stopped) return one.instance;
  }
  return std::nullopt;
}

Status KeptNodes::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                            Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  return PoolMachines(book_of(cluster), **api).terminate(ids, deadline);
}

Status KeptNodes::teardown(const Cluster& cluster, Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  PoolBook& book = book_of(cluster);
  const Status gone = PoolMachines(book, **api).terminate_all(deadline);
  if (!gone) return gone;
  const Status closed = clear_and_close(world_, account(), cluster, book, deadline);
  const std::scoped_lock lock(mutex_);
  plans_.erase(cluster.id);
  if (closed) books_.erase(cluster.id);
  return closed;
}

Connection KeptNodes::connection_by(const Cluster& cluster, std::vector<std::string> command) {
  const std::scoped_lock lock(mutex_);
  const Plan& plan = plan_of(cluster);
  return {.command = std::move(command),
          .shell = true,
          .stands = true,
          .agents = plan.agents,
          .uploads = plan.image.uploads};
}

Bootstrap KeptNodes::bootstrap(const Cluster& cluster, const Instance& instance) {
  std::unique_lock lock(mutex_);
  Bootstrap bootstrap = plan_of(cluster).image.bootstrap;
  lock.unlock();
  const std::string directory = keeper_directory(instance);
  bootstrap.script = claim_script(directory) + bootstrap.script;
  bootstrap.end_command = end_keeper_words(directory);
  return bootstrap;
}

}  // namespace skyward::provider
