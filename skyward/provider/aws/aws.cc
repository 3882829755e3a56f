#include "skyward/provider/aws/aws.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/io/machine.h"
#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/catalogue.h"
#include "skyward/provider/aws/fleet.h"
#include "skyward/provider/aws/groups.h"
#include "skyward/provider/aws/images.h"
#include "skyward/provider/aws/login.h"
#include "skyward/provider/aws/market.h"
#include "skyward/provider/aws/network.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/first_boot.h"
#include "skyward/provider/held_ledger.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/remote_image.h"
#include "skyward/provider/ssh/key_pair.h"
#include "skyward/spec/shortage.h"

namespace skyward::provider {

namespace {

using namespace aws;
using namespace std::chrono_literals;

// From the launch to the agent's first word: boot, login, upload over a slow line.
constexpr Duration kGreetTimeout = 600s;
// A machine that no agent has begun to use by then ends itself.
constexpr Duration kUnclaimed = 900s;
// A busy agent may be silent for a while; its machine is not ended for that.
constexpr Duration kLeastSilence = 60s;
// A machine lives so much longer than its pool may: boot and teardown.
constexpr Duration kBootGrace = 900s;
constexpr Duration kNoLimit = 24h * 3650;  // of a pool without a timeout
constexpr Duration kAddressTime = 20s;
// Spot prices move a few times a day.
constexpr Duration kPriceInterval = 300s;
// Linux spot machines that Amazon interrupts within their first hour are not charged: "Billing for
// interrupted Spot Instances" of the EC2 User Guide, docs.aws.amazon.com.
constexpr Duration kFreeWhenTakenBack = 1h;
constexpr Duration kCleanUpTime = 120s;
// Offers of so many types get their spot prices: the cheapest on demand.
constexpr std::size_t kMostSpotTypes = 100;

Duration request_timeout(const ProviderSpec& spec) {
  const std::string given = spec.setting("request_timeout");
  return given.empty() ? Duration(30s) : from_seconds(std::max(1.0, std::stod(given)));
}

// A pool may be without a limit; its machines end when their agent hears nothing for the lease.
Duration lifetime_of(const PoolSpec& spec) {
  return (spec.timeout > Duration{} ? spec.timeout : kNoLimit) + kBootGrace;
}

class AwsProvider final : public Provider {
 public:
  AwsProvider(World world, Configuration configuration, ProviderSpec spec, std::string region)
      : world_(std::move(world)),
        spec_(std::move(spec)),
        client_(world_, std::move(configuration), std::move(region), request_timeout(spec_)) {}

  std::string_view name() const override { return "aws"; }
  Capabilities capabilities() const override {
    return {.spot = true,
            .private_network = true,
            .descriptors = false,
            .root = true,
            .stop_ends_billing = true,
            .preemption = "ec2",
            .greet_timeout = kGreetTimeout,
            .billing = {.free_when_taken_back = kFreeWhenTakenBack},
            .charges_interval = kPriceInterval};
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
  void stop_buying() override { world_.buying.request_stop(); }
  Status teardown(const Cluster& cluster, Time deadline) override;
  Result<std::vector<Charge>> charges(const Cluster& cluster, const std::vector<std::string>& ids,
                                      Time deadline) override;
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) override;
  Error explain(const Instance& instance, Error error) override;

 private:
  // A pool that this process has open.
  struct Plan {
    PoolSpec spec{};
    RemoteImage image{};
    BootImage boot{};
    std::vector<LaunchTarget> places{};
    std::string pinned_zone{};  // where its machines stand already
    std::string group{};
    std::set<std::string> callers{};  // the addresses of this computer that it admits
    Mark mark{};
    std::string login_key{};       // public
    std::string session_region{};  // use_ssm: where its sessions are held
    PoolDirectory directory{};
    int launches = 0;
    std::map<std::string, std::string> known_hosts{};     // instance → file
    std::map<std::string, LaunchTarget> spot_machines{};  // by instance
    std::set<std::string> ended_spot{};                   // of these, until why is known
  };

  Result<std::vector<Offer>> offers_in(Client& client, const PoolSpec& spec, Time deadline);
  Result<std::vector<Offer>> offers_elsewhere(const PoolSpec& spec, Error here, Time deadline);
  void note_failure(const Error& error, const std::string& region);
  Status add_taken_back(const Cluster& cluster, std::set<std::string>& ended,
                        std::vector<Charge>& out, Time deadline);
  Result<Cluster> prepare_in(const PoolSpec& spec, const Offer& offer, Time deadline);
  Result<std::vector<LaunchTarget>> find_places(Client& client, const PoolSpec& spec,
                                                const Offer& offer,
                                                const std::vector<Subnet>& subnets, Time deadline);
  Status buy_group(Client& client, PoolBook& book, Plan& plan, const std::string& vpc,
                   Time deadline);
  Status admit_again(Client& client, Plan& plan, Time deadline);
  Result<LaunchRequest> request_of(Plan& plan, std::int64_t wall_s, int count, int first_node,
                                   std::string& known_hosts);
  Login login_of(const Plan& plan, const std::string& id) const;
  Client& client_in(const std::string& region);
  PoolBook& book_of(const Cluster& cluster);

  const World world_;
  const ProviderSpec spec_;
  Client client_;
  std::optional<Client> other_region_;
  std::vector<Offer> ranked_;  // of the last offers()
  Prices prices_;
  bool known_there_ = false;             // in the region that was asked last: see is_known()
  std::set<std::string> empty_regions_;  // where machines were sought in vain
  HeldLedger ledger_{[this] { return open_ledger(world_); }};
  std::map<std::string, PoolBook> books_;  // by cluster id
  // connection() is asked while a verb runs.
  std::mutex mutex_;
  std::map<std::string, Plan> plans_;  // by cluster id
};

Client& AwsProvider::client_in(const std::string& region) {
  if (region == client_.region()) return client_;
  if (!other_region_ || other_region_->region() != region) {
    other_region_.emplace(client_.in_region(region));
  }
  return *other_region_;
}

PoolBook& AwsProvider::book_of(const Cluster& cluster) {
  return books_.try_emplace(cluster.id, world_, ledger_, cluster.id).first->second;
}

// ---- Offers

Status AwsProvider::check(const PoolSpec& spec) {
  if (!io::is_program(spec.agent_path)) {
    return fail(ErrorKind::invalid,
                fmt::format("the agent program {} cannot be run", spec.agent_path),
                "install skyward again, or give the path of a skyward-agent that you built");
  }
  if (!spec.architecture.empty() && spec.architecture != agent_architecture()) {
    return fail(ErrorKind::unsupported,
                fmt::format("this installation brings an agent for {} machines, not for {}",
                            agent_architecture(), spec.architecture),
                "leave architecture out, or open the pool from a machine of that kind");
  }
  if (spec_.setting("use_ssm") == "true") {
    const Status able = check_session_manager(world_, spec_.setting("instance_profile_arn"));
    if (!able) return able;
  }
  if (spec.accelerator && spec.machine.empty()) {
    return check_image(spec, spec.accelerator->name, spec.accelerator->count);
  }
  return {};
}

Result<std::vector<Offer>> AwsProvider::offers_in(Client& client, const PoolSpec& spec,
                                                  Time deadline) {
  Catalogue catalogue(client);
  const auto types = catalogue.types(deadline);
  if (!types) return fail(types);
  known_there_ = is_known(*types, spec);
  // What fits at all is known without prices.
  auto fitting = fitting_offers(to_offers(*types, {}, client.region(), spec), spec);
  if (!fitting) {
    Error why = std::move(fitting.error());
    why.message = fmt::format("AWS, {}: {}", client.region(), why.message);
    return std::unexpected(std::move(why));
  }
  prices_ = {};
  prices_.on_demand = catalogue.prices(deadline);
  auto ranked = fitting_offers(to_offers(*types, prices_, client.region(), spec), spec);
  if (!ranked || spec.spot.kind == SpotKind::never) return ranked;
  std::vector<std::string> names;
  for (const Offer& offer : *ranked) {
    if (names.size() < kMostSpotTypes) names.push_back(offer.instance_type);
  }
  if (const auto added = catalogue.add_spot_prices(names, prices_, deadline); !added) {
    return fail(added);
  }
  return fitting_offers(to_offers(*types, prices_, client.region(), spec), spec);
}

// Regions with the same beginning ("us", "eu") first.
Result<std::vector<Offer>> AwsProvider::offers_elsewhere(const PoolSpec& spec, Error here,
                                                         Time deadline) {
  for (const char* bound : {"subnet_id", "security_group_id", "ami"}) {
    if (!spec_.setting(bound).empty()) return std::unexpected(here);
  }
  const auto regions = Ec2Api(client_).describe_regions(deadline);
  if (!regions) return std::unexpected(here);
  const std::string home = client_.region();
  std::vector<std::string> checked = {home};
  std::vector<std::string> order;
  for (const bool near : {true, false}) {
    for (const std::string& region : *regions) {
      if (region == home || empty_regions_.contains(region)) continue;
      if (region.starts_with(home.substr(0, 3)) == near) order.push_back(region);
    }
  }
  for (const std::string& region : order) {
    auto found = offers_in(client_in(region), spec, deadline);
    if (found) return found;
    checked.push_back(region);
  }
  here.hint += fmt::format("; no other of the account's {} regions has it", regions->size());
  if (spec.machine.empty()) return std::unexpected(here);
  return std::unexpected(with_shortage(std::move(here), {.kind = ShortageKind::region,
                                                         .requested = spec.nodes,
                                                         .region = home,
                                                         .regions = std::move(checked),
                                                         .instance_type = spec.machine}));
}

// Of the regions that were sought for machines in vain.
Error nowhere_else() {
  return {ErrorKind::exhausted, "AWS: no other region to try",
          "a subnet, a security group or an image ties the pool to its region"};
}

Result<std::vector<Offer>> AwsProvider::offers(const PoolSpec& spec, Time deadline) {
  auto found = empty_regions_.contains(client_.region())
                   ? offers_elsewhere(spec, nowhere_else(), deadline)
                   : offers_in(client_, spec, deadline);
  if (!found && found.error().kind == ErrorKind::invalid && !known_there_) {
    found = offers_elsewhere(spec, found.error(), deadline);
  }
  if (found) ranked_ = *found;
  return found;
}

Result<std::vector<Offer>> AwsProvider::catalogue(Time deadline) {
  Catalogue catalogue(client_);
  const auto types = catalogue.types(deadline);
  if (!types) return fail(types);
  Prices prices;
  prices.on_demand = catalogue.prices(deadline);
  PoolSpec any;
  any.spot = Spot::IfAvailable();
  std::vector<Offer> offers = to_offers(*types, prices, client_.region(), any);
  std::ranges::sort(offers, {}, [](const Offer& offer) {
    return std::tuple(offer.accelerator, offer.accelerator_count, offer.cpus, offer.memory_gb,
                      offer.instance_type);
  });
  return offers;
}

// ---- A pool's own things

// The offer's type first, then others that cost little more; of each, the cheapest zone first.
Result<std::vector<LaunchTarget>> AwsProvider::find_places(Client& client, const PoolSpec& spec,
                                                           const Offer& offer,
                                                           const std::vector<Subnet>& subnets,
                                                           Time deadline) {
  const std::vector<Offer> offers = with_alternatives(ranked_, offer, spec);
  std::vector<std::string> types;
  for (const Offer& one : offers) types.push_back(one.instance_type);
  const auto sold = Ec2Api(client).describe_type_zones(types, deadline);
  if (!sold) {
    return std::unexpected(to_error(
        sold.error(), fmt::format("EC2 DescribeInstanceTypeOfferings in {}", client.region())));
  }
  std::vector<LaunchTarget> places;
  for (const Offer& one : offers) {
    std::vector<LaunchTarget> of_type;
    for (const Subnet& subnet : subnets) {
      const auto here = [&](const TypeZone& at) {
        return at.type == one.instance_type && at.zone == subnet.zone;
      };
      const auto same = [&](const LaunchTarget& at) { return at.zone == subnet.zone; };
      if (std::ranges::none_of(*sold, here) || std::ranges::any_of(of_type, same)) continue;
      LaunchTarget place{.type = one.instance_type, .zone = subnet.zone, .subnet = subnet.id};
      place.on_demand_price = one.price_on_demand;
      const auto spot = prices_.spot.find({one.instance_type, subnet.zone});
      if (spot != prices_.spot.end()) place.spot_price = spot->second;
      place.spot = prices_.spot.empty() || prices_.least_spot(one.instance_type).has_value();
      keep_affordable(spec, place);
      of_type.push_back(std::move(place));
    }
    std::ranges::stable_sort(
        of_type, {}, [](const LaunchTarget& place) { return place.spot_price.value_or(1e9); });
    std::ranges::move(of_type, std::back_inserter(places));
  }
  if (places.empty()) {
    return fail(ErrorKind::exhausted,
                fmt::format("{} is not sold in a zone of {} where there is a subnet",
                            offer.instance_type, client.region()),
                "choose another type or region, or give subnet_id= of a zone that has it");
  }
  return places;
}

Status AwsProvider::buy_group(Client& client, PoolBook& book, Plan& plan, const std::string& vpc,
                              Time deadline) {
  plan.group = spec_.setting("security_group_id");
  if (!plan.group.empty()) return {};
  std::optional<std::string> caller;
  if (plan.session_region.empty()) {
    const auto address = caller_address(client, deadline);
    if (!address) return fail(address);
    caller = *address;
  }
  const auto group = make_group(client, book, vpc, to_tags(plan.mark), deadline);
  if (!group) return fail(group);
  plan.group = *group;
  if (caller) plan.callers.insert(*caller);
  return make_rules(client, plan.group, caller, deadline);
}

// After a change of network this computer comes from another address. Where that cannot be learnt,
// the one that is admitted may still be right.
Status AwsProvider::admit_again(Client& client, Plan& plan, Time deadline) {
  if (plan.callers.empty()) return {};  // nobody is let in, or by a group of the user's
  const auto caller = caller_address(client, std::min(deadline, world_.now() + kAddressTime));
  if (!caller || plan.callers.contains(*caller)) return {};
  Status made = make_rules(client, plan.group, *caller, deadline);
  if (made) plan.callers.insert(*caller);
  return made;
}

// A region without machines is left out from now on; once one is, so is a region tried
// instead of it that fails in any way.
void AwsProvider::note_failure(const Error& error, const std::string& region) {
  if (error.kind == ErrorKind::exhausted || !empty_regions_.empty()) empty_regions_.insert(region);
}

Result<Cluster> AwsProvider::prepare(const PoolSpec& spec, const Offer& offer, Time deadline) {
  auto cluster = prepare_in(spec, offer, deadline);
  if (!cluster) note_failure(cluster.error(), offer.region);
  return cluster;
}

Result<Cluster> AwsProvider::prepare_in(const PoolSpec& spec, const Offer& offer, Time deadline) {
  // A machine that was asked for by its name may be of any kind.
  if (!spec.machine.empty() && !offer.accelerator.empty()) {
    const Status able = check_image(spec, offer.accelerator, offer.accelerator_count);
    if (!able) return fail(able);
  }
  Client& client = client_in(offer.region.empty() ? client_.region() : offer.region);
  const auto caller = find_caller(client, deadline);
  if (!caller) return fail(caller);
  remove_left_groups(client, ledger_, caller->account, deadline);
  const auto subnets = find_subnets(client, spec_.setting("subnet_id"), deadline);
  if (!subnets) return fail(subnets);
  auto places = find_places(client, spec, offer, *subnets, deadline);
  if (!places) return fail(places);
  auto boot = find_image(client, spec, offer, deadline);
  if (!boot) return fail(boot);
  auto image = plan_remote_image(spec, world_.variable);
  if (!image) return fail(image);

  const std::string id = new_pool_id(world_, ledger_, "aws", spec.job_id);
  unsigned number = 0;
  std::from_chars(id.data() + id.find('-') + 1, id.data() + id.size(), number, 16);
  Cluster cluster{.id = id,
                  .region = client.region(),
                  .instance_type = offer.instance_type,
                  .details = {{"head_port", std::to_string(20000 + number % 12000)}}};
  Plan plan{.spec = spec, .image = *std::move(image), .boot = *std::move(boot)};
  if (spec_.setting("use_ssm") == "true") plan.session_region = client.region();
  plan.places = *std::move(places);
  plan.mark = {.pool = cluster.id,
               .owner = caller->owner,
               // By Amazon's clock: by ours, if it is wrong, machines would end at their boot, and
               // other computers would end machines at work.
               .expires_s = client.wall_s() + lifetime_of(spec) / 1s};
  auto directory = make_pool_directory(world_, cluster.id);
  if (!directory) return fail(directory);
  plan.directory = *std::move(directory);
  const auto login = make_key_pair(world_, plan.directory.path + "/login");
  Status status;
  if (login) {
    plan.login_key = *login;
    std::map<std::string, std::string> settings = way_back(client, *caller);
    if (!spec.job_id.empty()) settings[kJobSetting] = spec.job_id;
    status = ledger_.open_pool({.id = cluster.id,
                                .provider = "aws",
                                .region = cluster.region,
                                .settings = std::move(settings),
                                .opened_s = world_.wall_s(),
                                .expires_s = plan.mark.expires_s});
  } else {
    status = fail(login);
  }
  if (!status) {
    remove_pool_directory(world_, cluster.id);
    return fail(status);
  }
  status = buy_group(client, book_of(cluster), plan, subnets->front().vpc, deadline);
  if (!status) {
    if (const Status cleaned = teardown(cluster, world_.now() + kCleanUpTime); !cleaned) {
      status.error().message += "; " + cleaned.error().message;
    }
    return fail(status);
  }
  const std::scoped_lock lock(mutex_);
  plans_.emplace(cluster.id, std::move(plan));
  return cluster;
}

// ---- Machines

// What its launches have in common.
Result<LaunchRequest> AwsProvider::request_of(Plan& plan, std::int64_t wall_s, int count,
                                              int first_node, std::string& known_hosts) {
  // For this launch alone.
  auto host_key =
      make_host_key(world_, fmt::format("{}/host-{}", plan.directory.path, ++plan.launches));
  if (!host_key) return fail(host_key);
  known_hosts = host_key->known_hosts_file;
  const std::int64_t left_s = std::max<std::int64_t>(plan.mark.expires_s - wall_s, 60);
  FirstBoot boot;
  boot.dead_man.expires_s = plan.mark.expires_s;
  boot.dead_man.lifetime = std::chrono::seconds(left_s);
  boot.dead_man.unclaimed = kUnclaimed;
  if (plan.spec.lease > Duration{}) boot.dead_man.lease = std::max(plan.spec.lease, kLeastSilence);
  boot.host_key = std::move(host_key->secret);
  boot.host_key_public = std::move(host_key->public_line);
  boot.login_key = plan.login_key;
  boot.root_login = plan.boot.user == "root";
  LaunchRequest request;
  if (plan.spec.max_hourly_cost) {
    request.max_spot_price = *plan.spec.max_hourly_cost / plan.spec.nodes;
  }
  request.image = plan.boot.image.id;
  request.security_group = plan.group;
  request.own_group = spec_.setting("security_group_id").empty();
  // Session Manager needs no address of its own where the user's subnet leads to it; Amazon's
  // default subnets lead nowhere without one.
  request.public_ip = plan.session_region.empty() || spec_.setting("subnet_id").empty();
  request.user_data = user_data(boot);
  request.instance_profile_arn = spec_.setting("instance_profile_arn");
  request.root_device = plan.boot.image.root_device;
  request.root_gb = request.root_device.empty() ? 0 : plan.boot.root_gb;
  request.data_disks = plan.boot.image.data_disks;
  request.tags = to_tags(plan.mark);
  request.tags.emplace_back(kNodesTag, nodes_text(first_node, count));
  return request;
}

Result<std::vector<Instance>> AwsProvider::provision(const Cluster& cluster, int count,
                                                     int first_node, Time deadline) {
  const auto found = plans_.find(cluster.id);
  if (found == plans_.end()) {
    return fail(ErrorKind::invalid, fmt::format("the pool {} is not open here", cluster.id),
                "call prepare() first");
  }
  Plan& plan = found->second;
  if (plan.launches > 0) {
    Status admitted = admit_again(client_in(cluster.region), plan, deadline);
    if (!admitted) return fail(admitted);
  }
  std::string known_hosts;
  auto request =
      request_of(plan, client_in(cluster.region).wall_s(), count, first_node, known_hosts);
  if (!request) return fail(request);
  LaunchWish wish{.count = count, .spot = plan.spec.spot, .places = plan.places};
  std::ranges::stable_partition(
      wish.places, [&](const LaunchTarget& place) { return place.zone == plan.pinned_zone; });
  Fleet fleet(client_in(cluster.region), cluster.id, *std::move(request));
  const auto machines = Stock(book_of(cluster), fleet).launch(wish, deadline);
  if (!machines) {
    note_failure(machines.error(), cluster.region);
    return fail(machines);
  }
  std::vector<Instance> out;
  const std::scoped_lock lock(mutex_);
  plan.pinned_zone = machines->front().zone;
  for (const Standing& machine : *machines) {
    const Instance& instance = machine.instance;
    plan.known_hosts[instance.id] = known_hosts;
    if (instance.spot) {
      plan.spot_machines[instance.id] = {.type = instance.instance_type, .zone = machine.zone};
    }
    out.push_back(instance);
  }
  return out;
}

// Of machines that have ended, those which Amazon took back.
Status AwsProvider::add_taken_back(const Cluster& cluster, std::set<std::string>& ended,
                                   std::vector<Charge>& out, Time deadline) {
  if (ended.empty()) return {};
  Fleet fleet(client_in(cluster.region), cluster.id);
  const auto found = fleet.look_up({ended.begin(), ended.end()}, deadline);
  if (!found) return fail(found);
  for (const Standing& one : *found) {
    if (one.stage != Stage::gone) continue;
    if (one.reason == "Server.SpotInstanceTermination") {
      out.push_back({.instance = one.instance.id, .taken_back = true});
    }
    ended.erase(one.instance.id);
  }
  return {};
}

// One request for all machines, and one for those that have ended since; none where all are on
// demand, whose price stays.
Result<std::vector<Charge>> AwsProvider::charges(const Cluster& cluster,
                                                 const std::vector<std::string>& ids,
                                                 Time deadline) {
  std::vector<Charge> out;
  for (const LedgerEntry& entry : book_of(cluster).in_vain()) {
    out.push_back(charge_in_vain(entry, world_.wall_s()));
  }
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end()) return out;
  const auto& machines = plan->second.spot_machines;
  std::vector<std::string> types;
  for (const std::string& id : ids) {
    const auto machine = machines.find(id);
    if (machine != machines.end()) types.push_back(machine->second.type);
  }
  std::ranges::sort(types);
  types.erase(std::ranges::unique(types).begin(), types.end());
  if (types.empty()) return out;
  const auto prices = Ec2Api(client_in(cluster.region)).describe_spot_prices(types, deadline);
  if (!prices) {
    return std::unexpected(to_error(
        prices.error(), fmt::format("EC2 DescribeSpotPriceHistory in {}", cluster.region)));
  }
  for (const std::string& id : ids) {
    const auto machine = machines.find(id);
    if (machine == machines.end()) continue;
    for (const SpotPrice& price : *prices) {
      if (price.type != machine->second.type || price.zone != machine->second.zone) continue;
      out.push_back({.instance = id, .hourly = price.dollars});
      break;
    }
  }
  Status told = add_taken_back(cluster, plan->second.ended_spot, out, deadline);
  if (!told) return fail(told);
  return out;
}

Result<std::optional<Instance>> AwsProvider::get_instance(const Cluster& cluster,
                                                          const std::string& id, Time deadline) {
  Fleet fleet(client_in(cluster.region), cluster.id);
  const auto found = fleet.look_up({id}, deadline);
  if (!found) return fail(found);
  for (const Standing& one : *found) {
    if (one.instance.id == id && one.stage < Stage::ending) return one.instance;
  }
  return std::nullopt;
}

Status AwsProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                              Time deadline) {
  if (const auto plan = plans_.find(cluster.id); plan != plans_.end()) {
    for (const std::string& id : ids) {
      if (plan->second.spot_machines.contains(id)) plan->second.ended_spot.insert(id);
    }
  }
  Fleet fleet(client_in(cluster.region), cluster.id);
  return Stock(book_of(cluster), fleet).end(ids, deadline);
}

Status AwsProvider::teardown(const Cluster& cluster, Time deadline) {
  Client& client = client_in(cluster.region);
  PoolBook& book = book_of(cluster);
  Fleet fleet(client, cluster.id);
  Stock stock(book, fleet);
  if (Status status = stock.end_all(deadline); !status) return status;
  const auto kept_groups = remove_groups(client, book, deadline);
  // Keys are of no use when the machines have ended.
  {
    const std::scoped_lock lock(mutex_);
    plans_.erase(cluster.id);
  }
  remove_pool_directory(world_, cluster.id);
  if (!kept_groups) return fail(kept_groups);
  Status closed = stock.close_when_clear();
  books_.erase(cluster.id);
  return closed;
}

// ---- The way to them

Login AwsProvider::login_of(const Plan& plan, const std::string& id) const {
  const auto known = plan.known_hosts.find(id);
  SKYWARD_CHECK(known != plan.known_hosts.end(), "{} was not launched here", id);
  return {.user = plan.boot.user,
          .identity_file = plan.directory.path + "/login",
          .known_hosts_file = known->second,
          .session_region = plan.session_region};
}

Connection AwsProvider::connection(const Cluster& cluster, const Instance& instance) {
  const std::scoped_lock lock(mutex_);
  const auto plan = plans_.find(cluster.id);
  SKYWARD_CHECK(plan != plans_.end(), "{} was not prepared here", cluster.id);
  // While a machine boots, it refuses connections and keys: all of that is tried again.
  const Login login = login_of(plan->second, instance.id);
  return {.command = login_command(login, instance),
          .environment = {{"SSH_ASKPASS_REQUIRE", "never"}},
          .shell = true,
          .agent = plan->second.spec.agent_path,
          .uploads = plan->second.image.uploads,
          .permanent_errors = permanent_login_errors(login)};
}

Bootstrap AwsProvider::bootstrap(const Cluster& cluster, const Instance&) {
  const std::scoped_lock lock(mutex_);
  const auto plan = plans_.find(cluster.id);
  SKYWARD_CHECK(plan != plans_.end(), "{} was not prepared here", cluster.id);
  Bootstrap bootstrap = plan->second.image.bootstrap;
  bootstrap.script = fmt::format("touch {0} 2>/dev/null || true\nprintf 'alive %s\\n' {0} >&3\n{1}",
                                 kClaimFile, bootstrap.script);
  if (plan->second.boot.user != "root") bootstrap.end_command = {"sudo", "-n"};
  bootstrap.end_command.emplace_back(kEndProgram);
  return bootstrap;
}

Error AwsProvider::explain(const Instance& instance, Error error) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, plan] : plans_) {
    if (!plan.known_hosts.contains(instance.id)) continue;
    return explain_login_error(login_of(plan, instance.id), instance, std::move(error));
  }
  return error;
}

}  // namespace

Result<std::unique_ptr<Provider>> make_aws(const ProviderSpec& spec, World world) {
  auto configuration = load_configuration(world, "");
  if (!configuration) return fail(configuration);
  std::string region = find_region(world, *configuration, spec.setting("region"));
  if (region.empty()) region = "us-east-1";
  // Before a name is put into the address that gets the credentials.
  if (const auto endpoint = find_endpoint(world, *configuration, "ec2", region); !endpoint) {
    return fail(endpoint);
  }
  return std::make_unique<AwsProvider>(std::move(world), *std::move(configuration), spec,
                                       std::move(region));
}

Result<std::unique_ptr<Provider>> make_aws(const ProviderSpec& spec) {
  return make_aws(spec, world_of_this_process());
}

}  // namespace skyward::provider
