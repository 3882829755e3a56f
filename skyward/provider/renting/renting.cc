#include "skyward/provider/renting/renting.h"
#include "skyward/provider/open_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <ranges>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/io/machine.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/machine_provider.h"
#include "skyward/provider/remote_image.h"
#include "skyward/provider/renting/reaping.h"
#include "skyward/provider/ssh/key_pair.h"
#include "skyward/spec/pip_index.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

// A busy agent may be silent for a while; its machine is not ended for that.
constexpr Duration kLeastSilence = 60s;
constexpr Duration kCleanUpTime = 120s;
// For what costs nothing, and goes at the latest when the pool closes.
constexpr Duration kTidyTime = 30s;
// To the machines of a launch, the first of which have waited for the last.
constexpr Duration kConnectTime = 300s;
// Every cloud has charges to report: those for the machines of failed launches. Where spot prices
// change, they do so a few times a day.
constexpr Duration kChargesInterval = 300s;
// Between two looks for what launches have left.
constexpr Duration kLeftoversInterval = 60s;
// Between two looks at what has ended, and what it takes a machine to end.
constexpr Duration kLooksAndEnd = 600s;

bool has_password(std::string_view text) { return without_logins(text) != text; }

// As the machines of a pool have it; zero: they wait for ever.
Duration lease_of(const PoolSpec& spec) {
  return spec.lease > Duration{} ? std::max(spec.lease, kLeastSilence) : Duration{};
}

class Renting final : public MachineProvider {
 public:
  Renting(World world, std::unique_ptr<RentedCloud> cloud)
      : MachineProvider(std::move(world)), cloud_(std::move(cloud)) {}

  std::string_view name() const override { return cloud_->name(); }
  Capabilities capabilities() const override {
    Capabilities facts = cloud_->capabilities();
    if (facts.charges_interval == Duration{}) facts.charges_interval = kChargesInterval;
    // refresh() may send a request, and without a reaper there is less to look after.
    facts.tend_interval = cloud_->needs_reaper() ? kTendInterval : 2 * kTendInterval;
    facts.billing.tells_ends = facts.stop_ends_billing;
    return facts;
  }
  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override {
    return cloud_->offers(spec, deadline);
  }
  Result<std::vector<Offer>> catalogue(Time deadline) override {
    return cloud_->catalogue(deadline);
  }
  Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) override;
  Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                          Time deadline) override;
  Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                   Time deadline) override;
  Result<std::vector<Charge>> charges(const Cluster& cluster, const std::vector<std::string>& ids,
                                      Time deadline) override;
  Status tend(const Cluster& cluster, Time deadline) override;
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) override;
  Error explain(const Instance& instance, Error error) override;

 private:
  // A pool that this process has open.
  struct Plan {
    PoolSpec spec{};
    RemoteImage image{};
    std::unique_ptr<RentedSite> site{};
    Mark mark{};
    PoolDirectory directory{};
    std::map<std::string, std::string> keys{};  // file → text, in case somebody deletes the files
    std::string login_key{};                    // public
    std::string pinned_zone{};                  // where its machines stand already
    int launches = 0;
    bool is_launching = false;
    Time looked_for_leftovers{};
    std::map<std::string, std::string> known_hosts{};  // instance → file
    std::map<std::string, bool> standing{};            // instance → whether it is a spot one
  };

  Result<Cluster> prepare_site(const PoolSpec& spec, const Offer& offer, Time deadline);
  // For that many more machines.
  Spot market_for(const Plan& plan, int count) const {
    const bool has_spot =
        capabilities().spot && (!cloud_->has_few_spot_types() || plan.site->places().front().spot);
    if (!has_spot) return Spot::Never();
    const auto spot = std::ranges::count(plan.standing | std::views::values, true);
    return policy_beside(plan.spec.spot, plan.spec.nodes, static_cast<int>(plan.standing.size()),
                         static_cast<int>(spot), count);
  }
  Status keep_from_strangers(const PoolSpec& spec, const RemoteImage& image) const;
  void tell_of_keys(const RemoteImage& image);
  void tell_of_credentials(const PoolSpec& spec, const RentedSite& site);
  Status make_login(Plan& plan) const;
  Status enter_pool(const Cluster& cluster, const Plan& plan, const Offer& offer);
  // Cluster::unattended.
  std::string unattended_end() const;
  Status furnish(const Cluster& cluster, Plan& plan, Time deadline);
  void tell_unattended(const ProviderSpec& provider, const std::string& account);
  Status start_its_reaper(const Cluster& cluster, const Plan& plan) const;
  void release_leftovers(const Cluster& cluster, Plan& plan, Time deadline);
  // Writes those again that somebody has deleted.
  Status keep_keys(const Plan& plan) const;
  // Of machines that end themselves, those that have.
  Status look_for_ends(const Cluster& cluster, const std::vector<std::string>& ids, Time deadline);
  Result<LaunchTerms> terms_of(Plan& plan, int count, int first_node, std::string& known_hosts);
  static std::string login_file(const Plan& plan) { return plan.directory.path + "/login"; }
  SshOptions ssh_options(const Plan& plan, const SshRoute& way, const std::string& id) const;
  // The pool has to be open, and mutex_ held while the plan is read.
  const Plan& plan_of(const Cluster& cluster) const;
  void forget(const Cluster& cluster) override;
  PoolResources& resources() override { return *cloud_; }

  const std::unique_ptr<RentedCloud> cloud_;
  bool told_of_keys_ = false;
  bool told_of_unattended_ = false;
  bool told_of_credentials_ = false;
  // connection() is asked while a verb runs.
  std::mutex mutex_;
  std::map<std::string, Plan> plans_;  // by cluster id
};

const Renting::Plan& Renting::plan_of(const Cluster& cluster) const {
  const auto found = plans_.find(cluster.id);
  SKYWARD_CHECK(found != plans_.end(), "{} was not prepared here", cluster.id);
  return found->second;
}

void Renting::forget(const Cluster& cluster) {
  const std::scoped_lock lock(mutex_);
  plans_.erase(cluster.id);
}

Status Renting::check(const PoolSpec& spec) {
  if (Status status = MachineProvider::check(spec); !status) return status;
  if (Status status = check_packages(spec.image); !status) return status;
  if (!spec.volumes.empty() && !capabilities().fuse) {
    return fail(
        ErrorKind::unsupported,
        fmt::format("{} has no FUSE, so volumes cannot be mounted there; nothing was started",
                    provider_label(std::string(name()))),
        "read and write the bucket in the function, or use another provider");
  }
  return cloud_->check(spec);
}

// ---- Opening

Result<Cluster> Renting::prepare(const PoolSpec& spec, const Offer& offer, Time deadline) {
  auto cluster = prepare_site(spec, offer, deadline);
  if (!cluster) cloud_->note_failure(cluster.error(), offer.region);
  return cluster;
}

Result<Cluster> Renting::prepare_site(const PoolSpec& spec, const Offer& offer, Time deadline) {
  if (Status fits = check_architecture_of(spec, offer); !fits) return fail(fits);
  auto site = cloud_->find_site(spec, offer, ledger_, deadline);
  if (!site) return fail(site);
  const RemoteMachines machines{.proxies = Proxies::given,
                                .architecture = offer.architecture,
                                .image_is_named = names_image(spec.provider)};
  auto image = cloud_->by_ssh() ? plan_remote_image(spec, world_.variable, machines)
                                : Result<RemoteImage>(RemoteImage());
  if (!image) return fail(image);
  if (Status kept = keep_from_strangers(spec, *image); !kept) return fail(kept);
  tell_of_keys(*image);
  tell_of_credentials(spec, **site);

  const std::string id = new_pool_id(world_, ledger_, name(), spec.job_id);
  Cluster cluster{.id = id,
                  .region = (*site)->region(),
                  .instance_type = offer.instance_type,
                  .head_port = head_port_of(id),
                  .unattended = unattended_end()};
  Plan plan{.spec = spec, .image = *std::move(image), .site = *std::move(site)};
  plan.mark = {.pool = id,
               .owner = plan.site->owner(),
               .expires_s = plan.site->wall_s() + lifetime_of(spec) / 1s};
  auto directory = make_pool_directory(world_, id);
  if (!directory) return fail(directory);
  plan.directory = *std::move(directory);
  Status status = make_login(plan);
  if (status) status = enter_pool(cluster, plan, offer);
  if (!status) {
    remove_pool_directory(world_, id);
    return fail(status);
  }
  status = furnish(cluster, plan, deadline);
  if (!status) {
    if (const Status cleaned = teardown(cluster, world_.now() + kCleanUpTime); !cleaned) {
      status.error().message += "; " + cleaned.error().message;
    }
    return fail(status);
  }
  const std::scoped_lock lock(mutex_);
  plans_.emplace(id, std::move(plan));
  return cluster;
}

Status Renting::make_login(Plan& plan) const {
  if (!cloud_->by_ssh()) return {};
  const std::string file = login_file(plan);
  auto pair = make_key_pair(world_, file);
  if (!pair) return fail(pair);
  plan.login_key = std::move(pair->public_line);
  plan.keys[file] = std::move(pair->secret);
  return {};
}

// The owner of a machine sees everything that is on it.
Status Renting::keep_from_strangers(const PoolSpec& spec, const RemoteImage& image) const {
  if (!capabilities().strangers) return {};
  const auto refused = [&](const std::string& what) {
    return fail(ErrorKind::denied,
                fmt::format("{}: {} has a password that the owner of the machine could read; "
                            "nothing was started",
                            provider_label(std::string(name())), what),
                "use machines in data centres, or an index without a password");
  };
  for (const auto& [variable, value] : image.bootstrap.environment) {
    if (variable.starts_with(kImageVariable)) continue;  // tasks have it there, too
    const bool is_secret = variable.ends_with("_PASSWORD") || variable.ends_with("_TOKEN");
    if (is_secret || has_password(value))
      return refused("the setting " + variable + " of uv or pip");
  }
  for (const std::string& package : spec.image.pip) {
    if (has_password(package)) return refused("an address of a package in pip=");
  }
  return {};
}

void Renting::tell_of_keys(const RemoteImage& image) {
  const bool expire = std::ranges::any_of(image.bootstrap.environment, [](const auto& one) {
    return one.first == "AWS_SESSION_TOKEN";
  });
  if (!expire || std::exchange(told_of_keys_, true)) return;
  tell(
      "the keys for the volumes have a session token, so they expire, often after an hour: from "
      "then on, reads and writes there fail, and nodes cannot be replaced. Give machines of AWS a "
      "role with instance_profile_arn=, or use keys that do not expire");
}

void Renting::tell_of_credentials(const PoolSpec& spec, const RentedSite& site) {
  const auto end_s = site.credentials_end_s();
  if (!end_s) return;
  const std::chrono::seconds left(*end_s - site.wall_s());
  const bool is_enough = spec.timeout > Duration{} && left >= spec.timeout;
  if (is_enough || std::exchange(told_of_credentials_, true)) return;
  tell(fmt::format(
      "the credentials expire in {} min and cannot be renewed, but the pool may be open for "
      "longer: from then on, Skyward can neither replace nor terminate its machines, {}. Use "
      "credentials that Skyward can renew, or set a shorter timeout=",
      std::max(left / 1min, std::int64_t{0}),
      capabilities().stop_ends_billing ? "which terminate themselves when their lease expires"
                                       : "which cost money until 'skyward gc' terminates them"));
}

std::string Renting::unattended_end() const {
  if (!cloud_->needs_reaper()) return {};
  if (capabilities().stop_ends_billing) {
    return "while this computer is off, machines delete themselves when their lease expires";
  }
  return "only this computer terminates these machines: while it is off or asleep, they cost money";
}

// First what terminates the machines when this program is gone.
Status Renting::furnish(const Cluster& cluster, Plan& plan, Time deadline) {
  if (cloud_->needs_reaper()) {
    const std::string account = plan.site->way_back()["account"];
    for (const std::string& left :
         resume_reapers(world_, ledger_, plan.spec.agent_path, plan.spec.provider, account)) {
      tell(fmt::format("the pool {} was left behind: what it still has is being removed", left));
    }
    tell_unattended(plan.spec.provider, account);
    if (Status started = start_its_reaper(cluster, plan); !started) return started;
  }
  return plan.site->furnish(book_of(cluster), plan.mark, plan.login_key, deadline);
}

// Once: a pool may try several places.
void Renting::tell_unattended(const ProviderSpec& provider, const std::string& account) {
  if (std::exchange(told_of_unattended_, true)) return;
  for (const LedgerPool& pool : unattended_elsewhere(world_, ledger_, provider, account)) {
    const std::string host = pool.setting("host");
    tell(
        fmt::format("the pool {0} was opened on {1} and may still cost money; if its program is "
                    "gone, run 'skyward pool delete {0}'",
                    pool.id, host.empty() ? "another computer" : host));
  }
}

Status Renting::start_its_reaper(const Cluster& cluster, const Plan& plan) const {
  // By this computer's clock, which the reaper looks at, too.
  const std::int64_t ahead_s = plan.site->wall_s() - world_.wall_s();
  return start_reaper(world_, plan.spec.agent_path,
                      {.provider = plan.spec.provider,
                       .pool = cluster.id,
                       .region = cluster.region,
                       .expires_s = plan.mark.expires_s - ahead_s});
}

Status Renting::tend(const Cluster& cluster, Time deadline) {
  const auto found = plans_.find(cluster.id);
  if (found == plans_.end()) return {};
  Plan& plan = found->second;
  if (Status locked = keep_pool_locked(world_, cluster.id, plan.directory); !locked) return locked;
  if (cloud_->needs_reaper() && !io::FileLock::holder(reaper_lock(world_, cluster.id))) {
    if (Status started = start_its_reaper(cluster, plan); !started) return started;
  }
  if (Status kept = keep_keys(plan); !kept) return kept;
  Status refreshed = plan.site->refresh(deadline);
  release_leftovers(cluster, plan, deadline);
  return refreshed;
}

// A launch that is under way looks for them itself.
void Renting::release_leftovers(const Cluster& cluster, Plan& plan, Time deadline) {
  PoolBook& book = book_of(cluster);
  if (plan.is_launching || !book.has_leftovers()) return;
  if (world_.now() - plan.looked_for_leftovers < kLeftoversInterval) return;
  plan.looked_for_leftovers = world_.now();
  const std::unique_ptr<MachineApi> api = cloud_->machine_api(cluster);
  PoolMachines(book, *api).release_late(deadline);
}

Status Renting::keep_keys(const Plan& plan) const {
  for (const auto& [file, text] : plan.keys) {
    if (world_.exists(file)) continue;
    if (Status written = world_.write_file(file, text); !written) return written;
  }
  return {};
}

Status Renting::enter_pool(const Cluster& cluster, const Plan& plan, const Offer& offer) {
  std::map<std::string, std::string> settings = plan.site->way_back();
  settings["owner"] = plan.mark.owner;
  if (offer.billing_increment_minutes > 0) {
    settings[kBillingSetting] = std::to_string(offer.billing_increment_minutes);
  }
  const BillingRules billing = capabilities().billing;
  if (billing.minimum != BillingRules().minimum) {
    settings[kMinimumSetting] = std::to_string(billing.minimum / 1s);
  }
  if (billing.least > 0) settings[kLeastChargeSetting] = std::to_string(billing.least);
  const bool ends_itself = capabilities().stop_ends_billing;
  if (const Duration lease = lease_of(plan.spec); ends_itself && lease > Duration{}) {
    book_of(cluster).set_longest_unseen(lease + kLooksAndEnd);
  }
  return enter_in_ledger(cluster, {.job = plan.spec.job_id,
                                   .settings = std::move(settings),
                                   .expires_s = ends_itself ? plan.mark.expires_s : 0});
}

// ---- Machines

Result<LaunchTerms> Renting::terms_of(Plan& plan, int count, int first_node,
                                      std::string& known_hosts) {
  // For this launch alone.
  const std::string file = fmt::format("{}/host-{}", plan.directory.path, ++plan.launches);
  auto host_key = cloud_->by_ssh() ? make_host_key(world_, file) : Result<HostKey>(HostKey());
  if (!host_key) return fail(host_key);
  known_hosts = host_key->known_hosts_file;
  if (cloud_->by_ssh()) plan.keys[known_hosts] = std::move(host_key->known_hosts);
  const std::int64_t left_s = plan.mark.expires_s - plan.site->wall_s();
  LaunchTerms terms;
  terms.boot.end_timer.expires_s = plan.mark.expires_s;
  terms.boot.end_timer.lifetime = std::chrono::seconds(left_s);
  // Off, it would cost as before, and be of no use when its slower peers have booted.
  const Capabilities facts = capabilities();
  terms.boot.end_timer.unclaimed =
      facts.stop_ends_billing ? std::max(kUnclaimed, facts.provision_timeout + kConnectTime)
                              : Duration(std::chrono::seconds(left_s));
  terms.boot.end_timer.lease = lease_of(plan.spec);
  terms.boot.host_key = std::move(host_key->secret);
  terms.boot.host_key_public = std::move(host_key->public_line);
  terms.boot.login_key = plan.login_key;
  terms.boot.root_login = plan.site->user() == "root";
  if (plan.spec.max_hourly_cost) {
    terms.most_hourly = *plan.spec.max_hourly_cost / plan.spec.nodes;
  }
  terms.tags = to_tags(plan.mark);
  terms.tags.emplace_back(kNodesTag, nodes_text(first_node, count));
  return terms;
}

Result<std::vector<Instance>> Renting::provision(const Cluster& cluster, int count, int first_node,
                                                 Time deadline) {
  const auto found = plans_.find(cluster.id);
  if (found == plans_.end()) return not_open_here(cluster);
  Plan& plan = found->second;
  // This computer may have slept, and its clocks may not know it; or somebody has set its clock. A
  // reply of the cloud tells.
  const auto is_over = [&] { return plan.site->wall_s() >= plan.mark.expires_s - kLifeGrace / 1s; };
  if (is_over()) (void)cloud_->machine_api(cluster)->find(cluster.id, deadline);
  if (is_over()) {
    return fail(ErrorKind::denied,
                fmt::format("by the clock of {}, this pool's timeout={:g} has expired",
                            provider_label(std::string(name())), seconds(plan.spec.timeout)),
                "open it with a longer timeout=");
  }
  if (plan.launches > 0) {
    if (Status ready = plan.site->refresh(deadline); !ready) return fail(ready);
  }
  std::string known_hosts;
  const auto terms = terms_of(plan, count, first_node, known_hosts);
  if (!terms) return fail(terms);
  LaunchSpec launch{.count = count, .spot = market_for(plan, count), .places = plan.site->places()};
  std::ranges::stable_partition(
      launch.places, [&](const LaunchTarget& place) { return place.zone == plan.pinned_zone; });
  const auto api = plan.site->machine_api(book_of(cluster), *terms, deadline);
  if (!api) return fail(api);
  plan.is_launching = true;
  const auto machines = PoolMachines(book_of(cluster), **api).launch(launch, deadline);
  plan.is_launching = false;
  if (!machines) {
    plan.site->on_launch_failed(world_.now() + kTidyTime);
    cloud_->note_failure(machines.error(), cluster.region);
    return fail(machines);
  }
  plan.site->on_launched(*machines);
  std::vector<Instance> out;
  const std::scoped_lock lock(mutex_);
  plan.pinned_zone = machines->front().zone;
  for (const MachineStatus& machine : *machines) {
    plan.known_hosts[machine.instance.id] = known_hosts;
    plan.standing[machine.instance.id] = machine.instance.spot;
    out.push_back(machine.instance);
  }
  return out;
}

Status Renting::look_for_ends(const Cluster& cluster, const std::vector<std::string>& ids,
                              Time deadline) {
  if (!capabilities().stop_ends_billing) return {};
  const std::unique_ptr<MachineApi> api = cloud_->machine_api(cluster);
  return PoolMachines(book_of(cluster), *api).look_for_ends(ids, deadline);
}

// A machine's time begins with the request that brought it, not with those before it, and ends when
// that machine is seen to be gone, or must have terminated itself. For a machine of a failed
// launch, the cloud's word overrides the ledger: its price may have changed since the offer, and it
// may have ended before this computer noticed.
Result<std::vector<Charge>> Renting::charges(const Cluster& cluster,
                                             const std::vector<std::string>& ids, Time deadline) {
  PoolBook& book = book_of(cluster);
  const std::vector<LedgerEntry>& wasted = book.wasted();
  std::vector<Charge> told;
  std::vector<Charge> out;
  if (const auto plan = plans_.find(cluster.id); plan != plans_.end()) {
    if (plan->second.site->keeps_our_time()) {
      if (Status looked = look_for_ends(cluster, ids, deadline); !looked) return fail(looked);
      out = book.times_of(ids);
    }
    std::vector<std::string> all = ids;
    std::ranges::transform(wasted, std::back_inserter(all), &LedgerEntry::id);
    auto answer = plan->second.site->charges(all, deadline);
    if (!answer) return fail(answer);
    told = *std::move(answer);
  }
  for (const Charge& charge : told) {
    if (!charge.taken_back) continue;
    book.note_taken_back(charge.instance, capabilities().billing.free_when_taken_back);
  }
  for (const LedgerEntry& entry : wasted) {
    bool known = false;
    for (Charge& charge : told) {
      if (charge.instance != entry.id || !charge.began) continue;
      charge.failed_launch = known = true;
      charge.spot = entry.spot;
    }
    if (!known) out.push_back(wasted_charge(entry, world_.wall_s()));
  }
  std::ranges::move(told, std::back_inserter(out));
  return out;
}

Status Renting::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                          Time deadline) {
  const auto plan = plans_.find(cluster.id);
  if (plan != plans_.end()) plan->second.site->on_terminate(ids);
  Status ended = MachineProvider::terminate(cluster, ids, deadline);
  if (ended && plan != plans_.end()) {
    for (const std::string& id : ids) plan->second.standing.erase(id);
  }
  return ended;
}

// ---- The way to them

SshOptions Renting::ssh_options(const Plan& plan, const SshRoute& way,
                                const std::string& id) const {
  const auto known = plan.known_hosts.find(id);
  SKYWARD_CHECK(known != plan.known_hosts.end(), "{} was not launched here", id);
  return {.identity_file = login_file(plan),
          .proxy_command = way.proxy_command,
          .known_hosts_file = known->second,
          .pinned = true};
}

Connection Renting::connection(const Cluster& cluster, const Instance& instance) {
  const std::scoped_lock lock(mutex_);
  const Plan& plan = plan_of(cluster);
  const SshRoute route = plan.site->route_to(instance);
  // While a machine boots, it refuses connections and keys: all of that is tried again.
  Connection out{.command = ssh_command(route.target, ssh_options(plan, route, instance.id)),
                 .environment = {{"SSH_ASKPASS_REQUIRE", "never"}},
                 .shell = true,
                 .agents = agents_of(plan.spec),
                 .uploads = plan.image.uploads,
                 .permanent_errors = {"Bad configuration option", "Bad owner or permissions on"}};
  std::ranges::copy(route.permanent_errors, std::back_inserter(out.permanent_errors));
  return out;
}

Bootstrap Renting::bootstrap(const Cluster& cluster, const Instance&) {
  const std::scoped_lock lock(mutex_);
  const Plan& plan = plan_of(cluster);
  Bootstrap bootstrap = plan.image.bootstrap;
  bootstrap.script = fmt::format("touch {0} 2>/dev/null || true\nprintf 'alive %s\\n' {0} >&3\n{1}",
                                 kClaimFile, bootstrap.script);
  if (!capabilities().stop_ends_billing) return bootstrap;
  if (plan.site->user() != "root") bootstrap.end_command = {"sudo", "-n"};
  bootstrap.end_command.emplace_back(kEndProgram);
  return bootstrap;
}

Error Renting::explain(const Instance& instance, Error error) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, plan] : plans_) {
    if (!plan.known_hosts.contains(instance.id)) continue;
    const SshRoute route = plan.site->route_to(instance);
    if (auto told = plan.site->explain(instance, error)) return *std::move(told);
    Error told =
        explain_ssh_error(route.target, ssh_options(plan, route, instance.id), std::move(error));
    if (told.message.contains("does not answer") && !route.silent_hint.empty()) {
      told.hint += "; " + route.silent_hint;
    }
    return told;
  }
  return error;
}

}  // namespace

std::unique_ptr<Provider> make_renting(World world, std::unique_ptr<RentedCloud> cloud) {
  return std::make_unique<Renting>(std::move(world), std::move(cloud));
}

}  // namespace skyward::provider
