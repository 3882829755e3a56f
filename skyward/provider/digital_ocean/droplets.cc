#include "skyward/provider/digital_ocean/droplets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace skyward::provider::digital_ocean {

namespace {

using namespace std::chrono_literals;

constexpr int kLaunchTries = 3;
// A creation that has not succeeded after so long is asked about, and again after as long; so many
// in one look.
constexpr Duration kCreationTime = 30s;
constexpr std::size_t kMostActions = 3;
constexpr Duration kKeyAgain = 5s;
constexpr Duration kKnownAfter = 120s;

constexpr std::string_view kSpotMark = "-spot";

Stage stage_of(const Droplet& told) {
  if (told.status == "active" && !told.private_ip.empty() && !told.public_ip.empty()) {
    return Stage::running;
  }
  if (told.status == "new" || told.status == "active") return Stage::pending;
  return Stage::stopped;  // "off", "archive"
}

NamedMachine to_machine(const Droplet& told) {
  NamedMachine out{.name = told.name,
                   .status = {.instance = {.id = told.id,
                                           .spot = is_spot_size(told.size),
                                           .private_ip = told.private_ip},
                              .zone = told.region,
                              .stage = stage_of(told)}};
  if (out.status.stage == Stage::stopped) {
    out.status.reason = told.status;
    out.status.capacity = true;  // another one may start
  }
  out.status.switched_off = told.status == "off";
  if (!told.public_ip.empty()) out.status.instance.public_ip = told.public_ip;
  out.status.instance.instance_type = type_of_size(told.size);
  return out;
}

}  // namespace

bool is_spot_size(std::string_view slug) { return slug.ends_with(kSpotMark); }

std::string type_of_size(std::string_view slug) {
  if (is_spot_size(slug)) slug.remove_suffix(kSpotMark.size());
  return std::string(slug);
}

// Those with GPUs are listed apart; what a request for one kind shows in both is told once.
ApiResult<std::vector<NamedMachine>> list_droplets(Api& api, Time deadline) {
  auto droplets = api.droplets(false, deadline);
  if (!droplets) return std::unexpected(std::move(droplets.error()));
  auto with_gpus = api.droplets(true, deadline);
  if (!with_gpus) return std::unexpected(std::move(with_gpus.error()));
  for (Droplet& one : *with_gpus) {
    const auto same = std::ranges::find(*droplets, one.id, &Droplet::id);
    if (same == droplets->end()) droplets->push_back(std::move(one));
  }
  return mapped(droplets, to_machine);
}

Droplets::Droplets(Api& api, const World& world, std::string region, Mark mark,
                   DropletRequest common, Time key_known, RestClient* node)
    : RestMachines({.cloud = kCloud,
                    .region = std::move(region),
                    .listing_lag = 60s,
                    .known_after = kKnownAfter,
                    .release_time = 180s,
                    // Nothing ends these machines but us; a request that was obeyed shows in the
                    // lists long before.
                    .unanswered_limit_s = 1800,
                    .launch_tries = kLaunchTries,
                    .most_per_batch = kMostDroplets},
                   kProvider, std::move(mark)),
      api_(api),
      world_(world),
      common_(std::move(common)),
      key_known_(key_known),
      node_(node) {}

// The request for all that the account has is "/v2/droplets/": nothing else than a number may
// follow.
bool Droplets::is_id(std::string_view id) const {
  return !id.empty() && id.find_first_not_of("0123456789") == std::string_view::npos;
}

ApiResult<NamedMachine> Droplets::get(const std::string& id, Time deadline) {
  return mapped(api_.droplet(id, deadline), to_machine);
}

// A refusal for the key alone has created nothing.
ApiResult<Creation> Droplets::create(const DropletRequest& request, Time deadline) {
  const Time until = std::min(deadline, key_known_);
  auto made = api_.create_droplets(request, deadline);
  while (!made && is_unknown_key(made.error()) && is_certain(made.error()) &&
         wait_to_launch_again(world_, kKeyAgain, until)) {
    made = api_.create_droplets(request, deadline);
  }
  return made;
}

std::expected<std::vector<std::string>, LaunchRefusal> Droplets::launch(const LaunchBatch& batch,
                                                                        Time deadline) {
  DropletRequest request = common_;
  request.size = batch.place.type;
  if (batch.spot) request.size += kSpotMark;
  request.region = batch.place.zone;
  for (int i = 0; i < batch.count; ++i) request.names.push_back(name_of(batch, i));
  const auto made = create(request, deadline);
  launched_ = world_.now();  // what was not answered may have launched some, too
  if (!made) return std::unexpected(refusal(made.error()));
  if (made->actions.size() == made->droplets.size()) {
    for (std::size_t i = 0; i < made->droplets.size(); ++i) {
      creating_[made->droplets[i]] = {.action = made->actions[i],
                                      .look_at = world_.now() + kCreationTime};
    }
  }
  return made->droplets;
}

Result<std::vector<MachineStatus>> Droplets::look_up(const std::vector<std::string>& ids,
                                                     Time deadline) {
  auto found = RestMachines::look_up(ids, deadline);
  if (!found) return found;
  if (Status able = try_node_token(*found, deadline); !able) return fail(able);
  return found;
}

// To a token of another team, these droplets do not exist. Each would switch itself off at its end,
// as if it were deleted, and cost as before. A new droplet may be unknown to every token for a
// while: until this one knows it, it counts as pending.
Status Droplets::try_node_token(std::vector<MachineStatus>& found, Time deadline) {
  const auto running = std::ranges::find(found, Stage::running, &MachineStatus::stage);
  if (node_ == nullptr || running == found.end()) return {};
  Api node(*node_);
  const auto seen = node.droplet(running->instance.id, deadline);
  const bool is_unknown = !seen && seen.error().refusal == Refusal::not_found;
  if (is_unknown && world_.now() - launched_ < kKnownAfter) {
    running->stage = Stage::pending;
    return {};
  }
  node_ = nullptr;
  if (!is_unknown) return {};
  return fail(ErrorKind::denied,
              fmt::format("DigitalOcean: the node_token belongs to another team than the token: "
                          "droplet {} is unknown to it, and could not delete itself",
                          running->instance.id),
              "create both tokens in the same team, or leave out node_token");
}

// A creation that was accepted may fail afterwards: the droplet disappears or stays as it is, and
// only its action says so.
void Droplets::complete(const std::vector<std::string>& ids, std::vector<MachineStatus>& found,
                        Time deadline) {
  const Time now = world_.now();
  std::size_t asked = 0;
  for (const std::string& id : ids) {
    const auto creating = creating_.find(id);
    if (creating == creating_.end() || now < creating->second.look_at) continue;
    const auto seen = std::ranges::find_if(
        found, [&](const MachineStatus& one) { return one.instance.id == id; });
    if (seen != found.end() && seen->stage != Stage::pending) continue;
    if (++asked > kMostActions) return;
    creating->second.look_at = now + kCreationTime;
    const auto status = api_.action_status(creating->second.action, deadline);
    if (!status || *status != "errored") continue;
    MachineStatus& failed =
        seen == found.end()
            ? found.emplace_back(MachineStatus{
                  .instance = {.id = id}, .zone = facts().region, .stage = Stage::terminated})
            : *seen;
    // It still has to be deleted where it is.
    if (failed.stage == Stage::pending) failed.stage = Stage::stopped;
    if (failed.instance.instance_type.empty()) failed.instance.instance_type = "a droplet";
    failed.reason = "errored";
    failed.message = "DigitalOcean accepted the request, but creating it failed";
    failed.capacity = true;
  }
}

}  // namespace skyward::provider::digital_ocean
