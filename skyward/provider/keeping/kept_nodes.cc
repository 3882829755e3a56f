#include "skyward/provider/keeping/kept_nodes.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/keeping/keeping.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

// The same reason to wait is told again so rarely.
constexpr Duration kTellAgain = 10min;

}  // namespace

const KeptNodes::Plan& KeptNodes::plan_of(const Cluster& cluster) const {
  const auto found = plans_.find(cluster.id);
  SKYWARD_CHECK(found != plans_.end(), "{} was not prepared here", cluster.id);
  return found->second;
}

void KeptNodes::tell_once(const std::string& line, const std::string& about) {
  const Time now = world_.now();
  const std::string& what = about.empty() ? line : about;
  if (what == told_.about && now - told_.at < kTellAgain) return;
  told_ = {.about = what, .at = now};
  tell(line);
}

Status KeptNodes::check(const PoolSpec& spec) {
  if (Status status = MachineProvider::check(spec); !status) return status;
  return check_wishes(spec);
}

Result<std::vector<Offer>> KeptNodes::catalogue(Time deadline) {
  auto offers = all_offers(deadline);
  if (offers) sort_catalogue(*offers);
  return offers;
}

Result<Cluster> KeptNodes::open_pool(const PoolSpec& spec, const Offer& offer, Opening opening) {
  auto image = plan_remote_image(
      spec, world_.variable,
      {.architecture = offer.architecture, .image_is_named = names_image(spec.provider)});
  if (!image) return fail(image);
  const std::string id = new_pool_id(world_, ledger_, name_, spec.job_id);
  Cluster cluster{.id = id,
                  .region = offer.region,
                  .instance_type = offer.instance_type,
                  .head_port = head_port_of(id)};
  auto directory = make_pool_directory(world_, id);
  if (!directory) return fail(directory);
  const std::int64_t expires_s = world_.wall_s() + lifetime_of(spec) / 1s;
  std::map<std::string, std::string> settings = std::move(opening.way_back);
  settings["owner"] = opening.user.owner;
  settings["account"] = opening.user.account;
  const Status entered = enter_in_ledger(cluster, {.job = spec.job_id,
                                                   .settings = std::move(settings),
                                                   .expires_s = opening.queues ? 0 : expires_s});
  if (!entered) {
    remove_pool_directory(world_, id);
    return fail(entered);
  }
  Plan plan{.agents = agents_of(spec),
            .image = *std::move(image),
            .mark = {.pool = id, .owner = opening.user.owner, .expires_s = expires_s},
            .zone = std::move(opening.zone),
            .ends = world_.time_with_sleep() + lifetime_of(spec),
            .launch_api = std::move(opening.launch_api),
            .directory = *std::move(directory)};
  const std::scoped_lock lock(mutex_);
  plans_.emplace(id, std::move(plan));
  return cluster;
}

Result<std::vector<Instance>> KeptNodes::provision(const Cluster& cluster, int count, int,
                                                   Time deadline) {
  const auto found = plans_.find(cluster.id);
  if (found == plans_.end()) return not_open_here(cluster);
  const Plan& plan = found->second;
  LaunchTarget place{.type = cluster.instance_type, .zone = plan.zone};
  place.on_demand_price = 0.0;
  place.spot = false;
  const auto api = plan.launch_api(plan.mark, plan.ends - world_.time_with_sleep());
  const auto machines =
      PoolMachines(book_of(cluster), *api)
          .launch({.count = count, .spot = Spot::Never(), .places = {place}}, deadline);
  if (!machines) return fail(machines);
  std::vector<Instance> out;
  for (const MachineStatus& machine : *machines) out.push_back(machine.instance);
  return out;
}

Status KeptNodes::tend(const Cluster& cluster, Time) {
  const auto found = plans_.find(cluster.id);
  if (found == plans_.end()) return {};
  return keep_pool_locked(world_, cluster.id, found->second.directory);
}

void KeptNodes::forget(const Cluster& cluster) {
  const std::scoped_lock lock(mutex_);
  plans_.erase(cluster.id);
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
