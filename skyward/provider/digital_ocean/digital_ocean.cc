#include "skyward/provider/digital_ocean/digital_ocean.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "skyward/provider/choosing.h"
#include "skyward/provider/digital_ocean/droplet_account.h"
#include "skyward/spec/image.h"

namespace skyward::provider {

namespace {

using namespace digital_ocean;
using namespace std::chrono_literals;

constexpr const char* kDefaultRegion = "nyc1";
// From the launch to the agent's first word: boot, login, upload over a slow line.
constexpr Duration kGreetTimeout = 600s;
// From the launch until a droplet runs.
constexpr Duration kBootTimeout = 1500s;
// A new key is unknown to the creation of droplets for up to 45 s.
constexpr Duration kKeySpreads = 120s;
// "A minimum of 60 seconds or $0.01, whichever is greater"
// (docs.digitalocean.com/products/droplets/details/pricing).
constexpr MicroDollars kLeastCharge = 10'000;
// A token that may delete droplets, and nothing else.
constexpr const char* kNodeToken = "node_token";

// An offer for each region in which a type is sold, with the prices of the markets in which it is.
std::vector<Offer> to_offers(const std::vector<Size>& sizes, const std::string& machine,
                             bool spot_too) {
  std::map<std::pair<std::string, std::string>, Offer> offers;  // by region and type
  for (const Size& size : sizes) {
    const bool spot = is_spot_size(size.slug);
    const std::string type = type_of_size(size.slug);
    if (spot && !spot_too) continue;
    if (!machine.empty() && size.slug != machine && type != machine) continue;
    for (const std::string& region : size.regions) {
      Offer& offer = offers[{region, type}];
      offer = {.instance_type = type,
               .region = region,
               .cpus = size.cpus,
               .memory_gb = size.memory_mib / 1024,
               .accelerator = accelerator_in(size.gpu_model),
               .accelerator_form = form_factor_in(size.gpu_model),
               .accelerator_count = static_cast<double>(size.gpus),
               .accelerator_memory_gb = size.gpu_memory_gb / std::max(size.gpus, 1),
               .architecture = "x86_64",
               .price_on_demand = spot ? offer.price_on_demand : size.hourly,
               .price_spot = spot ? size.hourly : offer.price_spot};
    }
  }
  std::vector<Offer> out;
  for (auto& [key, offer] : offers) out.push_back(std::move(offer));
  return out;
}

// The system that brings the drivers of the machine's devices.
std::string image_for(const Offer& offer) {
  if (offer.accelerator.empty()) return "ubuntu-24-04-x64";
  const auto name = parse_accelerator_name(offer.accelerator);
  if (name && name->model->vendor == Vendor::amd) return "gpu-amd-base";
  return offer.accelerator_count >= 8 ? "gpu-h100x8-base" : "gpu-h100x1-base";
}

// A droplet that has this token deletes itself by it.
std::string delete_itself(const std::string& base_url, const std::string& token) {
  constexpr const char* kOwnId = "http://169.254.169.254/metadata/v1/id";
  // It goes off only when it is deleted, or after an hour: off, it could not ask again.
  return fmt::format(
      "tries=0; while [ $tries -lt 240 ]; do id=$(curl -fsS -m 10 {}); "
      "case $id in ''|*[!0-9]*) told=;; *) told=$(curl -sS -m 30 -o /dev/null -w '%{{http_code}}' "
      "-X DELETE -H {} {}/v2/droplets/$id);; esac; "
      "case $told in 2*|404) break;; esac; tries=$((tries + 1)); sleep 15; done",
      kOwnId, shell_quote("Authorization: Bearer " + token), base_url);
}

class DropletSite final : public NamedSite {
 public:
  // `node`: with the node_token; null without one.
  DropletSite(Api& api, ProviderSpec settings, SweepAccount account, std::string image,
              std::vector<LaunchTarget> places, std::unique_ptr<RestClient> node)
      : NamedSite(std::move(account), std::move(places)),
        api_(api),
        settings_(std::move(settings)),
        image_(std::move(image)),
        node_(std::move(node)) {}

  std::int64_t wall_s() const override { return api_.wall_s(); }

  Status furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                 Time deadline) override;
  Result<std::unique_ptr<MachineApi>> machine_api(PoolBook& book, const LaunchTerms& terms,
                                                  Time deadline) override;
  void on_launched(const std::vector<MachineStatus>&) override { node_.reset(); }

 private:
  Api& api_;
  const ProviderSpec settings_;
  const std::string image_;
  std::unique_ptr<RestClient> node_;  // until a launch has tried it
  std::string ssh_key_{};             // id or fingerprint
  Time key_known_{};                  // a new one is known everywhere by then
  std::string tag_{};
};

// A droplet without a key of the account gets a password by mail, which has to be changed before
// anything runs.
Status DropletSite::furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                            Time deadline) {
  mark_ = mark;
  DropletTags tags(api_);
  const auto tag = make_resource(kCloud, book, tags, mark, deadline);
  if (!tag) return fail(tag);
  tag_ = *tag;
  Firewalls firewalls(api_, tag_);
  if (const auto wall = make_resource(kCloud, book, firewalls, mark, deadline); !wall) {
    return fail(wall);
  }
  ssh_key_ = settings_.setting("ssh_key_fingerprint");
  if (!ssh_key_.empty()) return {};
  SshKeys keys(api_, login_key);
  const auto key = make_resource(kCloud, book, keys, mark, deadline);
  if (!key) return fail(key);
  ssh_key_ = *key;
  key_known_ = api_.world().now() + kKeySpreads;
  return {};
}

Result<std::unique_ptr<MachineApi>> DropletSite::machine_api(PoolBook& book,
                                                             const LaunchTerms& terms, Time) {
  FirstBoot boot = terms.boot;
  if (const std::string token = settings_.setting(kNodeToken); !token.empty()) {
    boot.end_timer.end_first = delete_itself(kBaseUrl, token);
  }
  return std::make_unique<Droplets>(
      api_, book.world(), region(), mark_,
      DropletRequest{
          .image = image_, .ssh_key = ssh_key_, .user_data = user_data(boot), .tag = tag_},
      key_known_, node_.get());
}

class DigitalOceanCloud final : public NamedCloud {
 public:
  DigitalOceanCloud(World world, RestAccess access, ProviderSpec spec)
      : world_(std::move(world)),
        access_(std::move(access)),
        account_(world_, access_),
        spec_(std::move(spec)) {
    region_ = spec_.setting("region");
    if (region_.empty()) region_ = kDefaultRegion;
  }

  std::string_view name() const override { return kProvider; }
  bool has_few_spot_types() const override { return true; }
  Capabilities capabilities() const override {
    return {.spot = true,
            .private_network = true,
            .splits_gpus = true,
            .stop_ends_billing = !spec_.setting(kNodeToken).empty(),
            .provision_timeout = kBootTimeout,
            .greet_timeout = kGreetTimeout,
            .billing = {.least = kLeastCharge}};
  }

  // A machine that deletes itself leaves keys and firewalls, and may fail to.
  bool needs_reaper() const override { return true; }

  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override;
  Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                Ledger& ledger, Time deadline) override;

 private:
  NamedAccount& account() override { return account_; }
  Result<std::vector<Size>> sizes(Time deadline);
  Status check_region(const std::vector<Size>& sizes, Time deadline);
  Status check_rights(RestClient* node, Time deadline);

  const World world_;
  const RestAccess access_;
  DropletAccount account_;
  Api& api_ = account_.api();
  const ProviderSpec spec_;
  std::string region_;
};

Result<std::vector<Size>> DigitalOceanCloud::sizes(Time deadline) {
  auto sizes = api_.sizes(deadline);
  if (!sizes) return std::unexpected(to_error(sizes.error(), "DigitalOcean: listing sizes"));
  return *std::move(sizes);
}

// Where the pool's region sells nothing now, there may be none of that name.
Status DigitalOceanCloud::check_region(const std::vector<Size>& sizes, Time deadline) {
  const auto has = [](const auto& regions, const std::string& region) {
    return std::ranges::find(regions, region) != regions.end();
  };
  if (std::ranges::any_of(sizes, [&](const Size& one) { return has(one.regions, region_); })) {
    return {};
  }
  const auto regions = api_.regions(deadline);
  if (!regions || has(*regions, region_)) return {};
  return fail(ErrorKind::invalid, fmt::format("DigitalOcean: there is no region {}", region_),
              fmt::format("the regions are {}", fmt::join(*regions, ", ")));
}

// Few regions have GPUs: where the pool's own has none that fit, the others are looked at.
Result<std::vector<Offer>> DigitalOceanCloud::offers(const PoolSpec& spec, Time deadline) {
  if (Status free = empty_regions_.quota(); !free) return fail(free);
  const auto sold = sizes(deadline);
  if (!sold) return fail(sold);
  if (Status known = check_region(*sold, deadline); !known) return fail(known);
  std::vector<Offer> here;
  std::vector<Offer> elsewhere;
  for (const Offer& one : to_offers(*sold, spec.machine, spec.spot.allows_spot())) {
    if (empty_regions_.contains(one.region)) continue;
    (one.region == region_ ? here : elsewhere).push_back(one);
  }
  auto found = fitting_offers(here, spec);
  if (!found) {
    if (auto other = fitting_offers(elsewhere, spec)) found = std::move(other);
  }
  return ranked(std::move(found), fmt::format("{}, {} and elsewhere", kCloud, region_), "region");
}

Result<std::vector<Offer>> DigitalOceanCloud::catalogue(Time deadline) {
  const auto sold = sizes(deadline);
  if (!sold) return fail(sold);
  std::vector<Offer> all = to_offers(*sold, {}, true);
  sort_catalogue(all);
  return all;
}

// A token that can create droplets and not delete them would leave them running.
Status DigitalOceanCloud::check_rights(RestClient* node, Time deadline) {
  if (const auto own = may_delete(api_, deadline); !own) {
    return std::unexpected(to_error(own.error(), "DigitalOcean: the token cannot delete droplets"));
  }
  if (node == nullptr) return {};
  Api node_api(*node);
  if (const auto nodes = may_delete(node_api, deadline); !nodes) {
    return std::unexpected(
        to_error(nodes.error(), "DigitalOcean: the node_token cannot delete droplets"));
  }
  return {};
}

Result<std::unique_ptr<RentedSite>> DigitalOceanCloud::find_site(const PoolSpec& spec,
                                                                 const Offer& offer, Ledger&,
                                                                 Time deadline) {
  auto account = account_.sign_in(deadline);
  if (!account) return fail(account);
  std::unique_ptr<RestClient> node;
  if (const std::string token = spec_.setting(kNodeToken); !token.empty()) {
    node = std::make_unique<RestClient>(world_, with_token(access_.account, token));
  }
  if (Status able = check_rights(node.get(), deadline); !able) return fail(able);
  const std::string image = image_for(offer);
  std::vector<LaunchTarget> places;
  for (const Offer& one : with_alternatives_there(ranked_, offer, spec)) {
    if (image_for(one) != image) continue;
    places.push_back(launch_target(spec, one));
  }
  return std::make_unique<DropletSite>(api_, spec.provider, *std::move(account), image,
                                       std::move(places), std::move(node));
}

}  // namespace

Result<std::unique_ptr<RentedCloud>> make_digital_ocean_cloud(const ProviderSpec& spec,
                                                              World world) {
  auto access = find_access(world, spec);
  if (!access) return fail(access);
  return std::make_unique<DigitalOceanCloud>(std::move(world), *std::move(access), spec);
}

}  // namespace skyward::provider
