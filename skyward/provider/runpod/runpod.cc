#include "skyward/provider/runpod/runpod.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/provider/base64.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/renting/own_end.h"
#include "skyward/provider/runpod/pod_offers.h"
#include "skyward/provider/runpod/runpod_account.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace {

using namespace runpod;
using namespace std::chrono_literals;

// From the launch to the agent's first word: hosts pull the image first, and most images need an
// sshd.
constexpr Duration kPodGreetTimeout = 1200s;
// Numbers of GPUs that people who look through everything see.
constexpr int kCounts[] = {1, 2, 4, 8};
// A credential that is used if the account has it.
constexpr const char* kDefaultRegistry = "docker hub";
// Of a second disk.
constexpr int kLeastVolume_gb = 10;

// Ubuntu of NVIDIA's for GPUs, Ubuntu's own without. A credential is one of Docker Hub, and no
// other registry takes it; without one, NVIDIA's own registry has no limit on what is pulled.
std::string image_of(const ProviderSpec& spec, const PodRequest& request) {
  std::string version = spec.setting("ubuntu");
  if (version.empty() || version == "newest") version = "24.04";
  if (request.gpu.empty()) return fmt::format("ubuntu:{}", version);
  return fmt::format("{}nvidia/cuda:12.8.1-base-ubuntu{}",
                     request.registry.empty() ? "nvcr.io/" : "", version);
}

std::vector<std::string> ports_of(const ProviderSpec& spec) {
  std::vector<std::string> out = {"22/tcp"};
  for (const std::string& port : items_of(spec.setting("ports"), ',')) {
    if (port != out.front()) out.push_back(port);
  }
  return out;
}

class PodSite final : public NamedSite {
 public:
  PodSite(Api& api, std::string base_url, SweepAccount account, PodTerms terms,
          std::vector<LaunchTarget> places)
      : NamedSite(std::move(account), std::move(places)),
        api_(api),
        base_url_(std::move(base_url)),
        terms_(std::move(terms)) {}

  std::int64_t wall_s() const override { return api_.wall_s(); }

  Result<std::unique_ptr<MachineApi>> machine_api(PoolBook& book, const LaunchTerms& terms,
                                                  Time deadline) override;

 private:
  Api& api_;
  const std::string base_url_;
  const PodTerms terms_;
};

// The arguments of a container are split like a shell's, so its script travels as base64. A pod's
// own key can end it by GraphQL, which will be retired; the specification of REST does not say
// whether it can there.
Result<std::unique_ptr<MachineApi>> PodSite::machine_api(PoolBook&, const LaunchTerms& launch,
                                                         Time) {
  FirstBoot boot = launch.boot;
  boot.install_sshd = true;
  boot.end_timer.container = true;
  boot.end_timer.end_first = own_end_script(
      {.key = "RUNPOD_API_KEY",
       .id = "RUNPOD_POD_ID",
       .request = fmt::format("-X DELETE {}/v2/pods/$id", base_url_),
       .otherwise = fmt::format("-H 'Content-Type: application/json' -d '{{\"query\":\"mutation {{ "
                                "podTerminate(input: {{podId: \\\"'$id'\\\"}}) }}\"}}' {}/graphql",
                                base_url_)});
  PodTerms terms = terms_;
  terms.most_hourly = launch.most_hourly;
  terms.args = fmt::format("bash -c 'echo {} | base64 -d | sh; exec sleep infinity'",
                           base64(boot_script(boot)));
  return std::make_unique<Pods>(api_, region(), mark_, std::move(terms));
}

class RunPodCloud final : public NamedCloud {
 public:
  RunPodCloud(World world, RestAccess access, ProviderSpec spec)
      : world_(std::move(world)),
        base_url_(access.account.base_url),
        account_(world_, std::move(access)),
        spec_(std::move(spec)),
        limits_(limits_of(spec_)) {}

  std::string_view name() const override { return kProvider; }
  Capabilities capabilities() const override {
    // Bids cannot ask for the network.
    return {.spot = !limits_.networked,
            .private_network = limits_.networked,
            .fuse = false,
            .strangers = limits_.tier == Tier::community,
            .stop_ends_billing = true,
            .provision_timeout = 2 * limits_.start_limit,
            .greet_timeout = kPodGreetTimeout,
            .billing = {.minimum = Duration{}}};
  }
  // Whether a pod could end itself is only known afterwards.
  bool needs_reaper() const override { return true; }
  // Pods without GPUs have none.
  bool has_few_spot_types() const override {
    return !ranked_.empty() && ranked_.front().accelerator.empty();
  }

  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override;
  Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                Ledger& ledger, Time deadline) override;

 private:
  NamedAccount& account() override { return account_; }
  Status look(const PodLimits& allowed, const std::vector<int>& counts, bool cpus, Time deadline);
  Status check_places(const std::vector<DataCenter>& there) const;
  Status complete(PodRequest& request, Time deadline);

  const World world_;
  const std::string base_url_;
  RunPodAccount account_;
  Api& api_ = account_.api();
  const ProviderSpec spec_;
  const PodLimits limits_;
  PodOffers on_sale_;       // of the last look
  bool takes_bids_ = true;  // then
};

Status RunPodCloud::check(const PoolSpec&) {
  if (spec_.setting("cluster_mode") == "instant") {
    return fail(ErrorKind::unsupported,
                "RunPod: instant clusters cannot be rented yet; nothing was started",
                "leave cluster_mode out: a pool of single pods, with global_networking=True if "
                "they have to reach each other");
  }
  if (limits_.networked && limits_.tier == Tier::community) {
    return fail(ErrorKind::invalid,
                "RunPod: global_networking needs data centres, but community machines are in none",
                "use cloud_type=\"secure\", or leave global_networking out");
  }
  if (!limits_.places.empty() && limits_.tier == Tier::community) {
    return fail(ErrorKind::invalid, "RunPod: community machines are in no data centre",
                "use cloud_type=\"secure\", or leave data_center_ids out");
  }
  if (!spec_.setting("network_volume").empty() && limits_.tier == Tier::community) {
    return fail(ErrorKind::invalid,
                "RunPod: a network volume is in a data centre, but community machines are in none",
                "use cloud_type=\"secure\", or leave network_volume out");
  }
  if (limits_.volume_gb > 0 && limits_.volume_gb < kLeastVolume_gb) {
    return fail(ErrorKind::invalid, fmt::format("RunPod: volume_gb is {}", limits_.volume_gb),
                fmt::format("use 0 for none, or {} and more", kLeastVolume_gb));
  }
  return {};
}

Status RunPodCloud::check_places(const std::vector<DataCenter>& there) const {
  for (const std::string& place : limits_.places) {
    if (std::ranges::find(there, place, &DataCenter::id) != there.end()) continue;
    std::string names;
    for (const DataCenter& one : there) names += (names.empty() ? "" : ", ") + one.id;
    return fail(ErrorKind::invalid, fmt::format("RunPod: there is no data centre {}", place),
                "the data centres are " + names);
  }
  return {};
}

// What is on sale now.
Status RunPodCloud::look(const PodLimits& allowed, const std::vector<int>& counts, bool cpus,
                         Time deadline) {
  const auto explained = [](const ApiError& error) {
    return std::unexpected(to_error(error, "RunPod: listing machines"));
  };
  on_sale_ = {};
  takes_bids_ = true;
  PodCatalogue catalogue;
  PodLimits limits = allowed;
  auto data_centers = api_.data_centers(deadline);
  if (!data_centers) return explained(data_centers.error());
  catalogue.data_centers = *std::move(data_centers);
  if (Status known = check_places(catalogue.data_centers); !known) return known;
  if (const std::string volume = spec_.setting("network_volume"); !volume.empty()) {
    const auto place = api_.place_of_volume(volume, deadline);
    if (!place) {
      return std::unexpected(to_error(place.error(), "RunPod: the network volume " + volume));
    }
    limits.places = {*place};
  }
  if (cpus) {
    auto kinds = api_.cpus(deadline);
    if (!kinds) return explained(kinds.error());
    catalogue.cpus = *std::move(kinds);
    on_sale_.add(std::exchange(catalogue, {.data_centers = catalogue.data_centers}), limits);
  }
  for (const int count : counts) {
    auto gpus = api_.gpus(limits.tier, count, limits.least_cuda, deadline);
    if (!gpus) return explained(gpus.error());
    auto market = api_.market(limits.tier, count, limits.least_cuda, deadline);
    if (!market) return explained(market.error());
    catalogue.count = count;
    catalogue.gpus = *std::move(gpus);
    takes_bids_ = market->has_value();
    catalogue.market = *std::move(market);
    on_sale_.add(catalogue, limits);
  }
  return {};
}

Result<std::vector<Offer>> RunPodCloud::offers(const PoolSpec& spec, Time deadline) {
  if (Status free = empty_regions_.quota(); !free) return fail(free);
  std::vector<int> counts;
  if (spec.accelerator) counts = {static_cast<int>(std::ceil(spec.accelerator->count))};
  if (!spec.accelerator && !spec.machine.empty())
    counts.assign(std::begin(kCounts), std::end(kCounts));
  PodLimits limits = limits_;
  limits.least_cuda = least_cuda(spec_, spec.accelerator);
  if (Status looked = look(limits, counts, !spec.accelerator, deadline); !looked) {
    return fail(looked);
  }
  if (!takes_bids_ && spec.spot.kind == SpotKind::always) {
    return fail(ErrorKind::unsupported,
                "RunPod: spot pods cannot be rented any more: RunPod has retired its GraphQL API, "
                "and its REST API has none",
                "use on-demand pods: spot=\"never\" or spot=\"if-available\"");
  }
  std::vector<Offer> all = on_sale_.offers;
  std::erase_if(all, [&](const Offer& one) {
    const bool other = !spec.machine.empty() && one.instance_type != spec.machine;
    return other || empty_regions_.contains(one.region);
  });
  return ranked(fitting_offers(all, spec), kCloud, "data centre");
}

Result<std::vector<Offer>> RunPodCloud::catalogue(Time deadline) {
  const std::vector<int> counts(std::begin(kCounts), std::end(kCounts));
  if (Status looked = look(limits_, counts, true, deadline); !looked) return fail(looked);
  std::vector<Offer> all = on_sale_.offers;
  sort_catalogue(all);
  return all;
}

// What the settings say about each pod.
Status RunPodCloud::complete(PodRequest& request, Time deadline) {
  request.ports = ports_of(spec_);
  request.networked = limits_.networked;
  request.network_volume = spec_.setting("network_volume");
  request.volume_path = spec_.setting("volume_mount_path");
  if (request.volume_path.empty()) request.volume_path = "/workspace";
  const std::string registry = spec_.setting("registry_auth");
  if (!registry.empty() && registry != "none") {
    const auto id = api_.registry(registry, deadline);
    const bool lacks_default =
        !id && id.error().refusal == Refusal::not_found && registry == kDefaultRegistry;
    if (!id && !lacks_default) {
      return std::unexpected(to_error(id.error(), "RunPod: registry_auth"));
    }
    request.registry = id.value_or("");
  }
  request.image = image_of(spec_, request);
  return {};
}

Result<std::unique_ptr<RentedSite>> RunPodCloud::find_site(const PoolSpec& spec, const Offer& offer,
                                                           Ledger&, Time deadline) {
  auto account = account_.sign_in(deadline);
  if (!account) return fail(account);
  PodTerms terms{.bid_multiplier = limits_.bid_multiplier,
                 .start_limit = limits_.start_limit,
                 .chosen = offer};
  std::vector<LaunchTarget> places;
  for (const Offer& one : with_alternatives_there(ranked_, offer, spec)) {
    const auto type = on_sale_.types.find(one.instance_type);
    if (type == on_sale_.types.end()) continue;
    PodType& wanted = terms.types[one.instance_type] = type->second;
    if (Status able = complete(wanted.request, deadline); !able) return fail(able);
    places.push_back(launch_target(spec, one));
  }
  if (places.empty()) {
    return fail(ErrorKind::exhausted,
                fmt::format("RunPod: {} is not available in {}", offer.instance_type, offer.region),
                "choose another type or data centre");
  }
  return std::make_unique<PodSite>(api_, base_url_, *std::move(account), std::move(terms),
                                   std::move(places));
}

}  // namespace

Result<std::unique_ptr<RentedCloud>> make_runpod_cloud(const ProviderSpec& spec, World world) {
  auto access = find_access(world, spec);
  if (!access) return fail(access);
  return std::make_unique<RunPodCloud>(std::move(world), *std::move(access), spec);
}

}  // namespace skyward::provider
