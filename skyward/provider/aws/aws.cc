#include "skyward/provider/aws/aws.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "skyward/provider/aws/catalogue.h"
#include "skyward/provider/aws/fleet.h"
#include "skyward/provider/aws/groups.h"
#include "skyward/provider/aws/images.h"
#include "skyward/provider/aws/login.h"
#include "skyward/provider/aws/market.h"
#include "skyward/provider/aws/own_tags.h"
#include "skyward/provider/aws/partition.h"
#include "skyward/provider/aws/site.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/launch.h"
#include "skyward/provider/renting/renting.h"
#include "skyward/spec/shortage.h"

namespace skyward::provider {

namespace {

using namespace aws;
using namespace std::chrono_literals;

// From the launch to the agent's first word: boot, login, upload over a slow line.
constexpr Duration kGreetTimeout = 600s;
// Linux spot machines that Amazon interrupts within their first hour are not charged: "Billing for
// interrupted Spot Instances" of the EC2 User Guide, docs.aws.amazon.com.
constexpr Duration kFreeWhenTakenBack = 1h;
// Offers of so many types get their spot prices: the cheapest on demand.
constexpr std::size_t kMostSpotTypes = 100;

class AwsCloud final : public RentedCloud {
 public:
  AwsCloud(World world, Configuration configuration, ProviderSpec spec, std::string region)
      : world_(std::move(world)),
        spec_(std::move(spec)),
        client_(world_, std::move(configuration), std::move(region), request_timeout(spec_)) {}

  std::string_view name() const override { return "aws"; }
  Capabilities capabilities() const override {
    return {.spot = true,
            .private_network = true,
            .descriptors = false,
            .root = true,
            .splits_gpus = true,
            .stop_ends_billing = true,
            .preemption = "ec2",
            .greet_timeout = kGreetTimeout,
            .billing = {.free_when_taken_back = kFreeWhenTakenBack, .prices_change = true},
            .tends_connections = true};
  }

  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override;
  void note_failure(const Error& error, const std::string& region) override {
    empty_regions_.note(error, region);
  }
  Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                Ledger& ledger, Time deadline) override;
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return std::make_unique<Fleet>(client_in(cluster.region), cluster.id);
  }
  Result<std::vector<std::string>> clear(const Cluster& cluster, PoolBook& book,
                                         Time deadline) override {
    return remove_groups(client_in(cluster.region), book, deadline);
  }

 private:
  Result<std::vector<Offer>> offers_in(Client& client, const PoolSpec& spec, Time deadline);
  Result<std::vector<Offer>> priced(Result<std::vector<Offer>> offers, const PoolSpec& spec) const;
  Result<std::vector<Offer>> offers_elsewhere(const PoolSpec& spec, Error here, Time deadline);
  Client& client_in(const std::string& region);

  const World world_;
  const ProviderSpec spec_;
  Client client_;
  std::map<std::string, Client> other_regions_;
  std::vector<Offer> ranked_;  // of the last offers()
  Prices prices_;
  bool known_there_ = false;  // in the region that was asked last: see is_known()
  EmptyRegions empty_regions_;
};

Client& AwsCloud::client_in(const std::string& region) {
  if (region == client_.region()) return client_;
  return other_regions_.try_emplace(region, client_.in_region(region)).first->second;
}

Status AwsCloud::check(const PoolSpec& spec) {
  if (const auto tags = own_tags(spec_); !tags) return fail(tags);
  if (spec_.setting("use_ssm") == "true") {
    const Status able = check_session_manager(world_, spec_.setting("instance_profile_arn"));
    if (!able) return able;
  }
  if (is_private(spec_) && spec_.setting("subnet_id").empty()) {
    return fail(
        ErrorKind::invalid,
        "private_addresses=True needs subnet_id=: in Amazon's default subnets, a machine "
        "without a public address reaches nothing",
        "give subnet_id= of a subnet with a NAT gateway to which this computer has a route");
  }
  if (spec.accelerator && spec.machine.empty()) {
    return check_image(spec, spec.accelerator->name, spec.accelerator->count);
  }
  return {};
}

// ---- Offers

Result<std::vector<Offer>> AwsCloud::offers_in(Client& client, const PoolSpec& spec,
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
  const bool is_limited = spec.budget || spec.max_hourly_cost;
  catalogue.add_list_prices(prices_, is_limited, deadline);
  auto ranked = fitting_offers(to_offers(*types, prices_, client.region(), spec), spec);
  if (!ranked || spec.spot.kind == SpotKind::never) return priced(std::move(ranked), spec);
  std::vector<std::string> names;
  for (const Offer& offer : *ranked) {
    if (names.size() < kMostSpotTypes) names.push_back(offer.instance_type);
  }
  if (const auto added = catalogue.add_spot_prices(names, prices_, deadline); !added) {
    return fail(added);
  }
  return priced(fitting_offers(to_offers(*types, prices_, client.region(), spec), spec), spec);
}

// A pool with a limit cannot use machines without a price: says why there is none.
Result<std::vector<Offer>> AwsCloud::priced(Result<std::vector<Offer>> offers,
                                            const PoolSpec& spec) const {
  const bool is_limited = spec.budget || spec.max_hourly_cost;
  if (!offers || !is_limited || prices_.trouble.empty()) return offers;
  const bool has_price = std::ranges::any_of(*offers, [&](const Offer& offer) {
    return asking_price(offer, spec.spot.allows_spot()).has_value();
  });
  if (has_price) return offers;
  const bool may_be_read = partition_of(client_.region()).in_dollars;
  return fail(may_be_read ? ErrorKind::unavailable : ErrorKind::invalid,
              "AWS: the prices of the machines that fit are not known, so Skyward cannot enforce "
              "budget= or max_hourly_cost=: " +
                  prices_.trouble,
              may_be_read ? "try again: Skyward continues reading the price list from where it "
                            "stopped; the credentials need pricing:GetProducts"
                          : "leave the limit out");
}

Result<std::vector<Offer>> AwsCloud::offers_elsewhere(const PoolSpec& spec, Error here,
                                                      Time deadline) {
  for (const char* bound : {"subnet_id", "security_group_id", "ami"}) {
    if (!spec_.setting(bound).empty()) return std::unexpected(here);
  }
  const auto regions = Ec2Api(client_).describe_regions(deadline);
  if (!regions) return std::unexpected(here);
  const std::string home = client_.region();
  std::vector<std::string> checked = {home};
  std::size_t unknown = 0;  // regions that could not be asked
  std::string why_unknown;  // of the first
  for (const std::string& region : nearest_first(home, *regions)) {
    if (region == home || empty_regions_.contains(region)) continue;
    if (world_.launching.stop_requested()) return std::unexpected(no_longer_wanted());
    auto found = offers_in(client_in(region), spec, deadline);
    if (found) return found;
    const Error& why = found.error();
    if (why.kind == ErrorKind::invalid || why.kind == ErrorKind::exhausted) {
      checked.push_back(region);
    } else if (++unknown == 1) {
      why_unknown = why.message;
    }
  }
  here.hint += unknown == 0
                   ? fmt::format("; no other of the account's {} regions has it", regions->size())
                   : fmt::format("; {} of the account's {} regions could not be asked: {}", unknown,
                                 regions->size(), why_unknown);
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

Result<std::vector<Offer>> AwsCloud::offers(const PoolSpec& spec, Time deadline) {
  auto found = empty_regions_.contains(client_.region())
                   ? offers_elsewhere(spec, nowhere_else(), deadline)
                   : offers_in(client_, spec, deadline);
  if (!found && found.error().kind == ErrorKind::invalid && !known_there_) {
    found = offers_elsewhere(spec, found.error(), deadline);
  }
  if (found) ranked_ = *found;
  return found;
}

Result<std::vector<Offer>> AwsCloud::catalogue(Time deadline) {
  Catalogue catalogue(client_);
  const auto types = catalogue.types(deadline);
  if (!types) return fail(types);
  Prices prices;
  catalogue.add_list_prices(prices, false, deadline);
  PoolSpec any;
  any.spot = Spot::IfAvailable();
  any.provider = spec_;
  any.provider.settings.erase("exclude_burstable");
  std::vector<Offer> offers = to_offers(*types, prices, client_.region(), any);
  sort_catalogue(offers);
  return offers;
}

// The offer's type first, then others that cost little more.
Result<std::unique_ptr<RentedSite>> AwsCloud::find_site(const PoolSpec& spec, const Offer& offer,
                                                        Ledger& ledger, Time deadline) {
  // A machine that was asked for by its name may be of any kind.
  if (!spec.machine.empty() && !offer.accelerator.empty()) {
    const Status able = check_image(spec, offer.accelerator, offer.accelerator_count);
    if (!able) return fail(able);
  }
  const SiteRequest request{
      .spec = spec, .offers = with_alternatives(ranked_, offer, spec), .prices = prices_};
  return aws::find_site(client_in(offer.region.empty() ? client_.region() : offer.region), request,
                        ledger, deadline);
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
  auto cloud =
      std::make_unique<AwsCloud>(world, *std::move(configuration), spec, std::move(region));
  return make_renting(std::move(world), std::move(cloud));
}

}  // namespace skyward::provider
