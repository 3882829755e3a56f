#include "skyward/provider/aws/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/fleet.h"
#include "skyward/provider/aws/groups.h"
#include "skyward/provider/aws/images.h"
#include "skyward/provider/aws/login.h"
#include "skyward/provider/aws/network.h"
#include "skyward/provider/aws/own_tags.h"
#include "skyward/provider/aws/partition.h"
#include "skyward/provider/choosing.h"

namespace skyward::provider::aws {

namespace {

using namespace std::chrono_literals;

constexpr Duration kAddressTime = 20s;
// In dollars an hour: the lowest bid that EC2 rejects as too low rather than as invalid.
constexpr double kLeastBid = 0.0001;
// How long Amazon keeps spot prices.
constexpr std::int64_t kOldestPrice_s = 90LL * 86400;

// Of each type, the cheapest zone first.
Result<std::vector<LaunchTarget>> find_places(Client& client, const SiteRequest& request,
                                              const std::vector<Subnet>& subnets, Time deadline) {
  std::vector<std::string> types;
  for (const Offer& one : request.offers) types.push_back(one.instance_type);
  const auto sold = Ec2Api(client).describe_type_zones(types, deadline);
  if (!sold) {
    return std::unexpected(to_error(
        sold.error(), fmt::format("EC2 DescribeInstanceTypeOfferings in {}", client.region())));
  }
  const double address = address_price(request.spec.provider);
  std::vector<LaunchTarget> places;
  for (const Offer& one : request.offers) {
    std::vector<LaunchTarget> of_type;
    for (const Subnet& subnet : subnets) {
      const auto here = [&](const TypeZone& at) {
        return at.type == one.instance_type && at.zone == subnet.zone;
      };
      const auto same = [&](const LaunchTarget& at) { return at.zone == subnet.zone; };
      if (std::ranges::none_of(*sold, here) || std::ranges::any_of(of_type, same)) continue;
      LaunchTarget place{.type = one.instance_type, .zone = subnet.zone, .subnet = subnet.id};
      place.on_demand_price = one.price_on_demand;
      const auto spot = request.prices.spot.find({one.instance_type, subnet.zone});
      if (spot != request.prices.spot.end()) place.spot_price = spot->second + address;
      place.spot =
          request.prices.spot.empty() || request.prices.least_spot(one.instance_type).has_value();
      keep_affordable(request.spec, place);
      of_type.push_back(std::move(place));
    }
    std::ranges::stable_sort(
        of_type, {}, [](const LaunchTarget& place) { return place.spot_price.value_or(1e9); });
    std::ranges::move(of_type, std::back_inserter(places));
  }
  if (places.empty()) {
    return fail(ErrorKind::exhausted,
                fmt::format("{} is not sold in any zone of {} that has a subnet",
                            request.offers.front().instance_type, client.region()),
                "choose another type or region, or give subnet_id= of a zone that has it");
  }
  return places;
}

class AwsSite final : public RentedSite {
 public:
  AwsSite(Client& client, ProviderSpec settings, CallerIdentity caller, std::string vpc,
          BootImage boot, std::vector<LaunchTarget> places)
      : client_(client),
        settings_(std::move(settings)),
        caller_(std::move(caller)),
        vpc_(std::move(vpc)),
        boot_(std::move(boot)),
        places_(std::move(places)),
        login_{.user = boot_.user,
               .image = fmt::format("{}, \"{}\"", boot_.image.id, boot_.image.name)} {
    login_.silent_hint = silent_hint(settings_);
    if (settings_.setting("use_ssm") == "true") login_.session_region = client.region();
  }

  std::string region() const override { return client_.region(); }
  const std::vector<LaunchTarget>& places() const override { return places_; }
  std::string owner() const override { return caller_.owner; }
  std::map<std::string, std::string> way_back() const override {
    return aws::way_back(client_, caller_);
  }
  std::int64_t wall_s() const override { return client_.wall_s(); }
  std::optional<std::int64_t> credentials_end_s() const override { return client_.last_end_s(); }
  std::string user() const override { return boot_.user; }

  Status furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                 Time deadline) override;
  Status refresh(Time deadline) override;
  Result<std::unique_ptr<MachineApi>> machine_api(PoolBook& book, const LaunchTerms& terms,
                                                  Time deadline) override;

  void on_launched(const std::vector<MachineStatus>& machines) override;
  void on_terminate(const std::vector<std::string>& ids) override;
  Result<std::vector<Charge>> charges(const std::vector<std::string>& ids, Time deadline) override;

  SshRoute route_to(const Instance& instance) const override { return route_by(login_, instance); }
  std::optional<Error> explain(const Instance& instance, const Error& error) const override {
    auto told = explain_session_error(login_, instance, error);
    return told ? told : explain_refused_login(login_, instance, error);
  }

 private:
  Status add_spot_prices(std::vector<Charge>& out, const std::vector<std::string>& ids,
                         Time deadline);
  Status add_taken_back(std::vector<Charge>& out, Time deadline);

  Client& client_;
  const ProviderSpec settings_;
  const CallerIdentity caller_;
  const std::string vpc_;
  const BootImage boot_;
  const std::vector<LaunchTarget> places_;
  Login login_;
  std::string pool_;
  std::string group_;
  std::set<std::string> admitted_;                       // addresses of this computer
  std::map<std::string, LaunchTarget> spot_machines_{};  // by instance
  std::set<std::string> ended_spot_{};                   // of these, until why is known
};

Status AwsSite::furnish(PoolBook& book, const Mark& mark, const std::string&, Time deadline) {
  pool_ = book.pool();
  group_ = settings_.setting("security_group_id");
  if (!group_.empty()) return {};
  std::vector<std::string> callers;
  if (login_.session_region.empty() && is_private(settings_)) {
    callers = private_networks();
  } else if (login_.session_region.empty()) {
    const auto address = caller_address(client_, deadline);
    if (!address) return fail(address);
    callers = {*address};
    admitted_.insert(*address);
  }
  Tags tags = to_tags(mark);
  add_own_tags(settings_, tags);
  const auto group = make_group(client_, book, vpc_, tags, deadline);
  if (!group) return fail(group);
  group_ = *group;
  return make_rules(client_, group_, callers, deadline);
}

// After a change of network this computer comes from another address. Where that cannot be learnt,
// the one that is admitted may still be right.
Status AwsSite::refresh(Time deadline) {
  // Nobody is let in, or whole networks are, or by a group of the user's.
  if (admitted_.empty()) return {};
  const auto caller =
      caller_address(client_, std::min(deadline, client_.world().now() + kAddressTime));
  if (!caller || admitted_.contains(*caller)) return {};
  Status made = make_rules(client_, group_, {*caller}, deadline);
  if (made) admitted_.insert(*caller);
  return made;
}

Result<std::unique_ptr<MachineApi>> AwsSite::machine_api(PoolBook& book, const LaunchTerms& terms,
                                                         Time) {
  LaunchRequest request = launch_request(settings_, boot_);
  if (terms.most_hourly) {  // Amazon's price is without the address
    request.max_spot_price = std::max(*terms.most_hourly - address_price(settings_), kLeastBid);
  }
  request.own_group = request.security_group.empty();
  request.security_group = group_;
  FirstBoot boot = terms.boot;
  if (boot_.new_user) boot.new_user = boot_.user;
  request.user_data = user_data(boot);
  request.tags.insert(request.tags.begin(), terms.tags.begin(), terms.tags.end());
  return std::make_unique<Fleet>(client_, book.pool(), std::move(request));
}

// ---- What its machines cost

void AwsSite::on_launched(const std::vector<MachineStatus>& machines) {
  for (const MachineStatus& machine : machines) {
    const Instance& instance = machine.instance;
    if (!instance.spot) continue;
    spot_machines_[instance.id] = {.type = instance.instance_type, .zone = machine.zone};
  }
}

void AwsSite::on_terminate(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    if (spot_machines_.contains(id)) ended_spot_.insert(id);
  }
}

// Of machines that have ended, those which Amazon preempted.
Status AwsSite::add_taken_back(std::vector<Charge>& out, Time deadline) {
  if (ended_spot_.empty()) return {};
  Fleet fleet(client_, pool_);
  const auto found = fleet.look_up({ended_spot_.begin(), ended_spot_.end()}, deadline);
  if (!found) return fail(found);
  for (const MachineStatus& one : *found) {
    if (one.stage != Stage::terminated) continue;
    if (one.reason == "Server.SpotInstanceTermination") {
      out.push_back({.instance = one.instance.id, .taken_back = true});
    }
    ended_spot_.erase(one.instance.id);
  }
  return {};
}

// A request for the prices of all spot machines, and one for spot machines that have ended.
Result<std::vector<Charge>> AwsSite::charges(const std::vector<std::string>& ids, Time deadline) {
  std::vector<Charge> out;
  Status told = add_spot_prices(out, ids, deadline);
  if (told) told = add_taken_back(out, deadline);
  if (!told) return fail(told);
  return out;
}

Status AwsSite::add_spot_prices(std::vector<Charge>& out, const std::vector<std::string>& ids,
                                Time deadline) {
  if (!partition_of(client_.region()).in_dollars) return {};
  std::set<std::string> types;
  for (const std::string& id : ids) {
    const auto machine = spot_machines_.find(id);
    if (machine != spot_machines_.end()) types.insert(machine->second.type);
  }
  if (types.empty()) return {};
  const auto prices = Ec2Api(client_).describe_spot_prices({types.begin(), types.end()}, deadline);
  if (!prices) {
    return std::unexpected(to_error(
        prices.error(), fmt::format("EC2 DescribeSpotPriceHistory in {}", client_.region())));
  }
  const std::int64_t now_s = client_.wall_s();
  for (const std::string& id : ids) {
    const auto machine = spot_machines_.find(id);
    if (machine == spot_machines_.end()) continue;
    for (const SpotPrice& price : *prices) {
      if (price.type != machine->second.type || price.zone != machine->second.zone) continue;
      const std::int64_t age_s = now_s - price.since_s.value_or(now_s);
      out.push_back(
          {.instance = id,
           .hourly = price.dollars + address_price(settings_),
           .since = std::chrono::seconds(std::clamp<std::int64_t>(age_s, 0, kOldestPrice_s))});
      break;
    }
  }
  return {};
}

}  // namespace

LaunchRequest launch_request(const ProviderSpec& settings, const BootImage& boot) {
  LaunchRequest request;
  request.image = boot.image.id;
  request.security_group = settings.setting("security_group_id");
  request.public_ip = has_addresses(settings);
  request.instance_profile_arn = settings.setting("instance_profile_arn");
  request.root_device = boot.image.root_device;
  request.root_gb = request.root_device.empty() ? 0 : boot.root_gb;
  request.data_disks = boot.image.data_disks;
  add_own_tags(settings, request.tags);
  return request;
}

Result<std::unique_ptr<RentedSite>> find_site(Client& client, const SiteRequest& request,
                                              Ledger& ledger, Time deadline) {
  const ProviderSpec& settings = request.spec.provider;
  auto caller = find_caller(client, deadline);
  if (!caller) return fail(caller);
  remove_left_groups(client, ledger, *caller, deadline);
  const auto subnets = find_subnets(client, settings.setting("subnet_id"), deadline);
  if (!subnets) return fail(subnets);
  auto places = find_places(client, request, *subnets, deadline);
  if (!places) return fail(places);
  auto boot = find_image(client, request.spec, request.offers.front(), deadline);
  if (!boot) return fail(boot);
  return std::make_unique<AwsSite>(client, settings, *std::move(caller), subnets->front().vpc,
                                   *std::move(boot), *std::move(places));
}

}  // namespace skyward::provider::aws
