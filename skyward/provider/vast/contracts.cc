#include "skyward/provider/vast/contracts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

namespace skyward::provider::vast {

namespace {

using namespace std::chrono_literals;

constexpr int kLaunchTries = 3;
// Asks that one launch may find taken: the search is minutes old by then.
constexpr std::size_t kMostTaken = 10;
constexpr const char* kOutbid = "outbid";
constexpr int kLaunchPages = 2;  // of one type: many more than may be taken

// Docker could not start the container, and never will.
bool is_broken(std::string_view message) {
  return message.contains("OCI runtime create failed") ||
         message.contains("Error response from daemon");
}

Stage stage_of(const Contract& told) {
  if (told.cur_state == "stopped" || is_broken(told.status_msg)) return Stage::stopped;
  if (told.actual_status == "running") {
    return told.ssh_port == 0 || told.address.empty() ? Stage::pending : Stage::running;
  }
  if (told.actual_status.empty() || told.actual_status == "created" ||
      told.actual_status == "loading") {
    return Stage::pending;
  }
  return Stage::stopped;  // "exited", "offline", "unknown"
}

// Machines reach each other, if at all, by the addresses that everybody has.
NamedMachine to_machine(const Contract& told) {
  NamedMachine out{.name = told.label,
                   .status = {.instance = {.id = told.id,
                                           .spot = told.is_bid,
                                           .private_ip = told.address,
                                           .ssh_port = told.ssh_port},
                              .zone = told.country,
                              .stage = stage_of(told)}};
  MachineStatus& status = out.status;
  if (!told.address.empty()) status.instance.public_ip = told.address;
  status.instance.instance_type = type_of(told.gpu, told.gpus);
  status.switched_off = told.cur_state == "stopped";
  if (told.total.value_or(0) > 0) {
    (told.is_bid ? status.instance.price_spot : status.instance.price_on_demand) = told.total;
  }
  if (status.stage == Stage::stopped) {
    const bool outbid = told.is_bid && told.cur_state == "stopped" && !is_broken(told.status_msg);
    status.reason = outbid ? kOutbid : told.actual_status;
    status.message = is_broken(told.status_msg) ? told.status_msg : "";
    status.capacity = true;  // of this host
  }
  return out;
}

bool is_as_offered(const Ask& ask, const Offer& offer) {
  return type_of(ask.gpu, ask.gpus) == offer.instance_type && ask.country == offer.region &&
         ask.cpus >= offer.cpus && ask.memory_gb >= offer.memory_gb &&
         ask.gpu_memory_gb >= offer.accelerator_memory_gb;
}

}  // namespace

std::string type_of(std::string_view gpu, int gpus) { return fmt::format("{}x {}", gpus, gpu); }

void keep_type(AskFilter& filter, std::string_view type) {
  const std::size_t times = type.find("x ");
  int gpus = 0;
  const auto read = std::from_chars(type.data(), type.data() + std::min(times, type.size()), gpus);
  if (times == std::string_view::npos || read.ptr != type.data() + times || gpus < 1) return;
  filter.gpus = gpus;
  filter.gpu = type.substr(times + 2);
}

std::string usual_name(std::string_view gpu) {
  std::string out(gpu);
  if (gpu.starts_with("Q ")) return "Quadro" + out.substr(1);
  if (gpu.starts_with("GTX ") && gpu.ends_with(" S")) return out + "uper";
  const std::size_t super = out.find("0S");
  if (!gpu.starts_with("RTX ") || super == std::string::npos) return out;
  return out.erase(super + 1, 1) + " Super";
}

ApiResult<std::vector<NamedMachine>> list_contracts(Api& api, Time deadline) {
  return mapped(api.contracts(deadline), to_machine);
}

Contracts::Contracts(Api& api, PoolHosts& hosts, std::string region, Mark mark, ContractTerms terms)
    : RestMachines({.cloud = kCloud,
                    .region = std::move(region),
                    .listing_lag = 60s,
                    .known_after = 120s,
                    .release_time = 180s,
                    .unanswered_limit_s = 1800,
                    .launch_tries = kLaunchTries,
                    .most_per_batch = 1,
                    .start_limit = terms.start_limit,
                    .hosts_differ = true},
                   kProvider, std::move(mark)),
      api_(api),
      hosts_(hosts),
      terms_(std::move(terms)) {}

// The request for all that the account has is "/api/v0/instances/": only a number may follow.
bool Contracts::is_id(std::string_view id) const {
  return !id.empty() && id.find_first_not_of("0123456789") == std::string_view::npos;
}

ApiResult<NamedMachine> Contracts::get(const std::string& id, Time deadline) {
  return mapped(api_.contract(id, deadline), to_machine);
}

ApiResult<std::vector<Ask>> search_market(Api& api, AskFilter filter, bool unverified,
                                          Time deadline) {
  auto found = api.search(filter, deadline);
  if (!found || !unverified) return found;
  filter.verified = false;
  auto others = api.search(filter, deadline);
  if (!others) return others;
  std::ranges::move(*others, std::back_inserter(*found));
  std::ranges::stable_sort(*found, std::less<>{},
                           [](const Ask& ask) { return ask.total.value_or(ask.base); });
  return found;
}

// A host that the pool lost to a higher bid is as good as before.
void Contracts::complete(const std::vector<std::string>&, std::vector<MachineStatus>& found, Time) {
  for (const MachineStatus& one : found) {
    if (one.reason != kOutbid) continue;
    hosts_.on_outbid(one.instance.id);
    std::erase_if(used_, [&](const auto& used) {
      if (used.second != one.instance.id) return false;
      refused_.emplace(used.first, true);
      return true;
    });
  }
}

// In dollars, of one machine with its disk. The market may have moved far since the pool chose.
double Contracts::most_hourly(const LaunchBatch& batch) const {
  const auto& chosen = batch.spot ? terms_.chosen.price_spot : terms_.chosen.price_on_demand;
  const auto& offered = batch.spot ? batch.place.spot_price : batch.place.on_demand_price;
  const double most = kMostTimesThePrice * chosen.value_or(offered.value_or(0));
  return std::min(most, terms_.most_hourly.value_or(most));
}

// Hosts that the pool has left come after the others. A bid that was refused is repeated last, one
// in each round: each takes seconds of the launch. On demand, an ask that was gone stays so, since
// searches may show it for minutes.
std::vector<Ask> Contracts::fitting(const std::vector<Ask>& asks, const LaunchBatch& batch) const {
  const auto offer = terms_.offers.find(batch.place.type);
  if (offer == terms_.offers.end()) return {};
  const double most = most_hourly(batch);
  const auto is_refused = [&](const Ask& ask) { return refused_.contains({ask.id, batch.spot}); };
  std::vector<Ask> out;
  std::ranges::copy_if(asks, std::back_inserter(out), [&](const Ask& ask) {
    return is_as_offered(ask, offer->second) && ask.total && *ask.total <= most &&
           !used_.contains(ask.id) && (batch.spot || !is_refused(ask));
  });
  std::ranges::stable_partition(out, [&](const Ask& ask) { return !hosts_.has_left(ask.host); });
  const auto again =
      std::ranges::stable_partition(out, [&](const Ask& ask) { return !is_refused(ask); });
  if (again.size() > 1) out.erase(again.begin() + 1, again.end());
  if (out.size() > kMostTaken) out.resize(kMostTaken);
  return out;
}

// Searches again, since the market has moved. An ask that is gone, or that its host refuses, made
// nothing, and the next one is tried; after any other failure, the caller looks for what was made.
std::expected<std::vector<std::string>, LaunchRefusal> Contracts::launch(const LaunchBatch& batch,
                                                                         Time deadline) {
  AskFilter filter = terms_.filter;
  filter.bids = batch.spot;
  keep_type(filter, batch.place.type);
  filter.most_pages = kLaunchPages;
  auto asks = search_market(api_, filter, terms_.unverified, deadline);
  if (!asks) {
    asks.error().heard = Heard::not_sent;  // what was asked makes nothing
    asks.error().maybe_done = false;
    return std::unexpected(refusal(asks.error()));
  }
  const double most = most_hourly(batch);
  ApiError last{
      .refusal = Refusal::capacity,
      .heard = Heard::answered,
      .message = fmt::format("no {} is left that the pool may use at ${:.4g} an hour or less",
                             batch.place.type, most)};
  for (const Ask& ask : fitting(*asks, batch)) {
    ContractRequest request = terms_.request;
    request.label = name_of(batch, 0);
    // The disk comes on top of the bid.
    const double disk = ask.total.value_or(ask.base) - ask.base;
    if (batch.spot) request.bid = std::min(ask.base * terms_.bid_multiplier, most - disk);
    const auto made = api_.take(ask.id, request, deadline);
    used_[ask.id] = made.value_or("");
    if (made) {
      hosts_.on_rented(*made, ask.host);
      return std::vector<std::string>{*made};
    }
    last = made.error();
    if (!is_certain(last)) break;
    const bool by_host = last.status == 403;
    const bool of_this_ask =
        last.refusal == Refusal::capacity || last.refusal == Refusal::price_too_low || by_host;
    if (!by_host) used_.erase(ask.id);
    if (!of_this_ask) break;
    if (!by_host) refused_.emplace(ask.id, batch.spot);
  }
  return std::unexpected(refusal(last));
}

}  // namespace skyward::provider::vast
