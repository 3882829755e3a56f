#include "skyward/provider/runpod/pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace skyward::provider::runpod {

namespace {

using namespace std::chrono_literals;

constexpr int kLaunchTries = 3;
// A pod that runs has its port within this time, or never: some hosts have no public address.
constexpr double kPortTime_s = 120;

Stage stage_of(const Pod& told) {
  if (told.status == "RUNNING") {
    if (told.ssh_port != 0 && !told.address.empty()) return Stage::running;
    return told.up_s > kPortTime_s ? Stage::stopped : Stage::pending;
  }
  if (told.status == "PROVISIONING" || told.status == "STARTING") return Stage::pending;
  return told.status == "TERMINATED" ? Stage::terminated : Stage::stopped;  // deleted for good
}

NamedMachine to_machine(const Pod& told) {
  NamedMachine out{
      .name = told.name,
      .status = {.instance = {.id = told.id,
                              .spot = told.is_bid,
                              .private_ip = told.private_address.empty() ? told.address
                                                                         : told.private_address,
                              .ssh_port = told.ssh_port},
                 .zone = told.place,
                 .stage = stage_of(told)}};
  MachineStatus& status = out.status;
  if (!told.address.empty()) status.instance.public_ip = told.address;
  status.switched_off = told.status == "EXITED";
  if (told.cost > 0) {
    (told.is_bid ? status.instance.price_spot : status.instance.price_on_demand) =
        told.cost + disk_price(told.disk_gb);
  }
  if (status.stage >= Stage::stopped) {
    status.reason = told.status;
    if (told.status == "RUNNING") status.message = "its host gave it no public port for ssh";
    if (told.status == "EXITED" && told.is_bid) status.reason = "outbid";
    status.capacity = true;  // of this host
  }
  return out;
}

}  // namespace

ApiResult<std::vector<NamedMachine>> list_pods(Api& api, Time deadline) {
  return mapped(api.pods(deadline), to_machine);
}

Pods::Pods(Api& api, std::string region, Mark mark, PodTerms terms)
    : RestMachines({.cloud = kCloud,
                    .region = std::move(region),
                    .listing_lag = 60s,
                    .known_after = 60s,
                    .release_time = 180s,
                    .unanswered_limit_s = 1800,
                    .launch_tries = kLaunchTries,
                    .most_per_batch = 1,
                    .start_limit = terms.start_limit,
                    .hosts_differ = true},
                   kProvider, std::move(mark)),
      api_(api),
      terms_(std::move(terms)) {}

bool Pods::is_id(std::string_view id) const {
  return !id.empty() && std::ranges::all_of(id, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_';
  });
}

ApiResult<NamedMachine> Pods::get(const std::string& id, Time deadline) {
  return mapped(api_.pod(id, deadline), to_machine);
}

// A pod that is to have an address of the network has it later than its port.
void Pods::complete(const std::vector<std::string>&, std::vector<MachineStatus>& found, Time) {
  const bool networked = std::ranges::any_of(
      terms_.types, [](const auto& type) { return type.second.request.networked; });
  if (!networked) return;
  for (MachineStatus& one : found) {
    const bool waits = one.instance.private_ip == one.instance.public_ip;
    if (one.stage == Stage::running && waits) one.stage = Stage::pending;
  }
}

// For one GPU, by the market of now: the pool may have opened long ago. The last one known if
// RunPod does not tell.
std::optional<double> Pods::least_bid(const PodType& type, Time deadline) {
  const PodRequest& wanted = type.request;
  const auto market = api_.market(wanted.tier, wanted.count, wanted.least_cuda, deadline);
  if (!market || !*market) return type.least_bid;
  const auto found = std::ranges::find(**market, wanted.gpu, &GpuMarket::id);
  const bool told = found != (*market)->end() && found->least_bid;
  return told ? found->least_bid : type.least_bid;
}

// In dollars, of one machine with its disks: not far above the offer that the pool chose, nor above
// what this type costs on demand.
double Pods::most_hourly(const LaunchBatch& batch) const {
  const Offer& chosen = terms_.chosen;
  const double offered = chosen.price_spot.value_or(batch.place.spot_price.value_or(0));
  double most = offered * kMostTimesThePrice;
  const std::optional<double>& on_demand = batch.place.on_demand_price;
  if (on_demand) most = std::min(most, std::max(offered, *on_demand));
  return std::min(most, terms_.most_hourly.value_or(most));
}

std::expected<std::vector<std::string>, LaunchRefusal> Pods::launch(const LaunchBatch& batch,
                                                                    Time deadline) {
  const auto type = terms_.types.find(batch.place.type);
  if (type == terms_.types.end()) {
    return std::unexpected(refusal({.refusal = Refusal::invalid,
                                    .heard = Heard::not_sent,
                                    .message = "no such type: " + batch.place.type}));
  }
  PodRequest request = type->second.request;
  request.name = name_of(batch, 0);
  request.args = terms_.args;
  if (batch.place.zone != kCommunity) request.place = batch.place.zone;
  if (batch.spot) {
    const double least = least_bid(type->second, deadline).value_or(0);
    const double disks = disk_price(request.disk_gb + request.volume_gb);
    const double most = most_hourly(batch);
    const double cost = least * request.count + disks;
    if (cost > most) {
      return std::unexpected(refusal(
          {.refusal = Refusal::price_too_low,
           .heard = Heard::not_sent,
           .message = fmt::format("with the lowest bid, a {} costs ${:.4g} an hour; the pool may "
                                  "pay ${:.4g} or less",
                                  batch.place.type, cost, most)}));
    }
    const double limit = std::max(least, (most - disks) / request.count);
    request.bid = std::min(least * terms_.bid_multiplier, limit);
  }
  auto made = api_.create(request, deadline);
  if (!made) return std::unexpected(refusal(made.error()));
  return std::vector<std::string>{*std::move(made)};
}

}  // namespace skyward::provider::runpod
