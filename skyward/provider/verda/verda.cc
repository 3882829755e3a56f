#include "skyward/provider/verda/verda.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "skyward/provider/choosing.h"
#include "skyward/provider/verda/verda_account.h"
#include "skyward/provider/verda/verda_images.h"

namespace skyward::provider {

namespace {

using namespace verda;
using namespace std::chrono_literals;

// From the launch to the agent's first word: some machines take twenty minutes to boot.
constexpr Duration kGreetTimeout = 1500s;
// A launch waits no longer for scripts of former ones to be removed. They cost nothing, and go at
// the latest when the pool closes.
constexpr Duration kScriptTime = 10s;
constexpr Duration kBillingStep = 600s;
constexpr int kBillingMinutes = 10;
// Room for a framework and its packages, gigabytes.
constexpr int kDisk_gb = 100;

class VerdaSite final : public NamedSite {
 public:
  VerdaSite(Api& api, ProviderSpec settings, SweepAccount account,
            std::map<std::string, std::string> images, std::vector<LaunchTarget> places)
      : NamedSite(std::move(account), std::move(places)),
        api_(api),
        settings_(std::move(settings)),
        images_(std::move(images)) {}

  std::int64_t wall_s() const override { return api_.wall_s(); }

  Status furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                 Time deadline) override;
  Status refresh(Time deadline) override;
  Result<std::unique_ptr<MachineApi>> machine_api(PoolBook& book, const LaunchTerms& terms,
                                                  Time deadline) override;
  void on_launched(const std::vector<MachineStatus>&) override {
    scripts_.back().needed_until = api_.world().now() + kGreetTimeout;
  }
  void on_launch_failed(Time deadline) override {
    scripts_.back().needed_until = api_.world().now();
    (void)refresh(deadline);
  }

 private:
  // Of one launch: its machines read it at their first boot.
  struct LaunchScript {
    std::string id{};
    Time needed_until = kNever;
  };

  Api& api_;
  const ProviderSpec settings_;
  const std::map<std::string, std::string> images_;  // by type
  PoolBook* book_ = nullptr;
  std::string ssh_key_{};  // id
  int launches_ = 0;
  std::vector<LaunchScript> scripts_;  // that there are
};

Status VerdaSite::furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                          Time deadline) {
  book_ = &book;
  mark_ = mark;
  ssh_key_ = settings_.setting("ssh_key_id");
  if (!ssh_key_.empty()) return {};
  VerdaTexts keys = VerdaTexts::keys(api_, login_key);
  const auto key = make_resource(kCloud, book, keys, mark, deadline);
  if (!key) return fail(key);
  ssh_key_ = *key;
  return {};
}

// An account may have a hundred scripts, and each of these holds a key.
Status VerdaSite::refresh(Time deadline) {
  const Time now = api_.world().now();
  deadline = std::min(deadline, now + kScriptTime);
  VerdaTexts scripts = VerdaTexts::scripts(api_);
  bool answered = true;
  std::erase_if(scripts_, [&](const LaunchScript& one) {
    if (!answered || one.needed_until > now) return false;
    answered = remove_early(*book_, scripts, one.id, deadline);
    return answered;
  });
  return {};
}

// The script carries the host key, which is another one for each launch.
Result<std::unique_ptr<MachineApi>> VerdaSite::machine_api(PoolBook& book, const LaunchTerms& terms,
                                                           Time deadline) {
  VerdaTexts scripts = VerdaTexts::scripts(api_, boot_script(terms.boot));
  const auto script = make_resource(kCloud, book, scripts, mark_, deadline, ++launches_);
  if (!script) return fail(script);
  scripts_.push_back({.id = *script});
  return std::make_unique<Servers>(
      api_, region(), mark_,
      ServerRequest{.ssh_key = ssh_key_, .script = *script, .disk_gb = kDisk_gb}, images_);
}

class VerdaCloud final : public NamedCloud {
 public:
  VerdaCloud(World world, ProviderSpec spec) : world_(std::move(world)), spec_(std::move(spec)) {}
  // Before anything else.
  Status sign_in() {
    auto access = find_access(world_, spec_);
    if (!access) return fail(access);
    account_.emplace(world_, *std::move(access));
    return {};
  }

  std::string_view name() const override { return kProvider; }
  Capabilities capabilities() const override {
    return {.spot = true,
            .open_network = true,
            .splits_gpus = true,
            .provision_timeout = kGreetTimeout,
            .greet_timeout = kGreetTimeout,
            .billing = {.quantum = kBillingStep, .minimum = kBillingStep}};
  }

  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override;
  Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                Ledger& ledger, Time deadline) override;

 private:
  NamedAccount& account() override { return *account_; }
  Result<std::vector<Offer>> all_offers(bool spot, Time deadline);

  const World world_;
  const ProviderSpec spec_;
  std::optional<VerdaAccount> account_;
  std::vector<ServerType> types_;  // as they were told last
  std::set<std::string> locations_;
};

// An offer for each place in which the type is there now, with the prices of the markets in which
// it is, its disk included.
Result<std::vector<Offer>> VerdaCloud::all_offers(bool spot, Time deadline) {
  auto types = account_->api().types(deadline);
  if (!types) return std::unexpected(to_error(types.error(), "Verda: listing types"));
  types_ = *std::move(types);
  const auto disk = account_->api().disk_price(deadline);
  if (!disk) return std::unexpected(to_error(disk.error(), "Verda: the price of disks"));
  std::map<std::pair<std::string, std::string>, Offer> offers;  // by place and type
  for (const bool market : {false, true}) {
    if (market && !spot) continue;
    const auto there = account_->api().availability(market, deadline);
    if (!there)
      return std::unexpected(to_error(there.error(), "Verda: listing available machines"));
    for (const Availability& at : *there) {
      if (!at.location.empty()) locations_.insert(at.location);
      for (const std::string& name : at.types) {
        const auto type = std::ranges::find(types_, name, &ServerType::name);
        if (type == types_.end() || at.location.empty()) continue;
        Offer& offer = offers[{at.location, name}];
        offer = offer_of(*type, at.location, std::move(offer));
        const auto& price = market ? type->spot_hourly : type->hourly;
        if (price) (market ? offer.price_spot : offer.price_on_demand) = *price + *disk * kDisk_gb;
      }
    }
  }
  std::vector<Offer> out;
  for (auto& [key, offer] : offers) {
    offer.billing_increment_minutes = kBillingMinutes;
    out.push_back(std::move(offer));
  }
  return out;
}

Result<std::vector<Offer>> VerdaCloud::offers(const PoolSpec& spec, Time deadline) {
  if (Status free = empty_regions_.quota(); !free) return fail(free);
  auto all = all_offers(spec.spot.allows_spot(), deadline);
  if (!all) return all;
  const std::string region = spec_.setting("region");
  if (!region.empty() && !locations_.contains(region)) {
    return fail(ErrorKind::invalid, fmt::format("Verda: there is no location {}", region),
                fmt::format("the locations are {}", fmt::join(locations_, ", ")));
  }
  std::erase_if(*all, [&](const Offer& one) {
    const bool elsewhere = !region.empty() && one.region != region;
    const bool other = !spec.machine.empty() && one.instance_type != spec.machine;
    return elsewhere || other || empty_regions_.contains(one.region);
  });
  return ranked(fitting_offers(*all, spec),
                fmt::format("{}{}{}", kCloud, region.empty() ? "" : ", ", region), "location");
}

Result<std::vector<Offer>> VerdaCloud::catalogue(Time deadline) {
  auto all = all_offers(true, deadline);
  if (!all) return all;
  sort_catalogue(*all);
  return all;
}

Result<std::unique_ptr<RentedSite>> VerdaCloud::find_site(const PoolSpec& spec, const Offer& offer,
                                                          Ledger&, Time) {
  std::map<std::string, std::string> images;
  std::vector<LaunchTarget> places;
  for (const Offer& one : with_alternatives_there(ranked_, offer, spec)) {
    const auto type = std::ranges::find(types_, one.instance_type, &ServerType::name);
    if (type == types_.end()) continue;
    images[one.instance_type] = image_for(*type);
    places.push_back(launch_target(spec, one));
  }
  if (places.empty()) {
    return fail(ErrorKind::exhausted,
                fmt::format("Verda: {} is not available in {}", offer.instance_type, offer.region),
                "choose another type or location");
  }
  return std::make_unique<VerdaSite>(account_->api(), spec.provider, account_->sweep_account(),
                                     std::move(images), std::move(places));
}

}  // namespace

Result<std::unique_ptr<RentedCloud>> make_verda_cloud(const ProviderSpec& spec, World world) {
  auto cloud = std::make_unique<VerdaCloud>(std::move(world), spec);
  if (Status able = cloud->sign_in(); !able) return fail(able);
  return cloud;
}

}  // namespace skyward::provider
