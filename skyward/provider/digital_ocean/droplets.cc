#include "skyward/provider/digital_ocean/droplets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace skyward::provider::digital_ocean {

namespace {

using namespace std::chrono_literals;

// So many are asked for one by one; more are looked for in the lists of all.
constexpr std::size_t kMostSingleRequests = 3;
constexpr int kLaunchTries = 3;
// A creation that has not succeeded after so long is asked about, and again after as long.
constexpr Duration kCreationTime = 30s;

// The request for all that the account has is "/v2/droplets/": nothing else than a number may
// follow.
bool is_droplet_id(std::string_view id) {
  return !id.empty() && id.find_first_not_of("0123456789") == std::string_view::npos;
}

// The key of a launch in a name: what follows the pool's id.
std::string_view digits_of(std::string_view token) { return token.substr(token.rfind('-') + 1); }

Stage stage_of(const Droplet& told) {
  if (told.status == "active" && !told.private_ip.empty() && !told.public_ip.empty()) {
    return Stage::running;
  }
  if (told.status == "new" || told.status == "active") return Stage::pending;
  return told.status == "archive" ? Stage::terminating : Stage::stopped;
}

MachineStatus to_status(const Droplet& told) {
  MachineStatus out{.instance = {.id = told.id, .private_ip = told.private_ip},
                    .zone = told.region,
                    .stage = stage_of(told)};
  if (out.stage == Stage::stopped) out.reason = told.status;
  if (!told.public_ip.empty()) out.instance.public_ip = told.public_ip;
  out.instance.instance_type = told.size;
  return out;
}

Error explained(const ApiError& error, std::string_view what) {
  return to_error(error, fmt::format("{}: {}", kCloud, what));
}

}  // namespace

std::optional<MarkedName> read_mark(const Droplet& droplet) {
  return read_name(droplet.name, kProvider);
}

ApiResult<std::vector<Droplet>> all_droplets(Api& api, Time deadline) {
  auto out = api.droplets(false, deadline);
  if (!out) return out;
  auto with_gpus = api.droplets(true, deadline);
  if (!with_gpus) return with_gpus;
  for (Droplet& one : *with_gpus) {
    if (std::ranges::find(*out, one.id, &Droplet::id) == out->end()) out->push_back(std::move(one));
  }
  return out;
}

Droplets::Droplets(Api& api, std::string region, Mark mark, DropletRequest common)
    : api_(api),
      mark_(std::move(mark)),
      common_(std::move(common)),
      facts_{.cloud = kCloud,
             .region = std::move(region),
             .listing_lag = 60s,
             .known_after = 120s,
             .release_time = 180s,
             // Nothing ends these machines but us; a request that was obeyed shows in the lists
             // long before.
             .unanswered_limit_s = 1800,
             .launch_tries = kLaunchTries,
             .most_per_batch = kMostDroplets,
             .ends_itself = false} {}

std::expected<std::vector<std::string>, LaunchRefusal> Droplets::launch(const LaunchBatch& batch,
                                                                        Time deadline) {
  DropletRequest request = common_;
  request.size = batch.place.type;
  request.region = batch.place.zone;
  for (int i = 0; i < batch.count; ++i) {
    request.names.push_back(
        to_name({.mark = mark_, .rest = fmt::format("{}-{}", digits_of(batch.token), i)}));
  }
  const auto made = api_.create_droplets(request, deadline);
  if (!made) {
    const ApiError& error = made.error();
    return std::unexpected(
        LaunchRefusal{.why = {.error = explained(error, "creating droplets"),
                              .capacity = error.kind() == ErrorKind::exhausted,
                              .quota = error.refusal == Refusal::quota,
                              .account = error.refusal == Refusal::insufficient_funds},
                      .code = error.code,
                      .certain = is_certain(error)});
  }
  if (made->actions.size() == made->droplets.size()) {
    for (std::size_t i = 0; i < made->droplets.size(); ++i) {
      creations_[made->droplets[i]] = {.action = made->actions[i],
                                       .look_at = api_.world().now() + kCreationTime};
    }
  }
  return made->droplets;
}

Result<std::vector<MachineStatus>> Droplets::find(std::string_view token, Time deadline) {
  const auto all = all_droplets(api_, deadline);
  if (!all) return std::unexpected(explained(all.error(), "listing droplets"));
  const std::string key = fmt::format("{}-", digits_of(token));
  std::vector<MachineStatus> out;
  for (const Droplet& one : *all) {
    const auto name = read_mark(one);
    if (!name || name->mark.pool != mark_.pool) continue;
    if (token.empty() || name->rest.starts_with(key)) out.push_back(to_status(one));
  }
  return out;
}

Result<std::vector<MachineStatus>> Droplets::look_up_each(const std::vector<std::string>& ids,
                                                          Time deadline) {
  std::vector<MachineStatus> out;
  for (const std::string& id : ids) {
    const auto told = api_.droplet(id, deadline);
    if (told) out.push_back(to_status(*told));
    if (!told && told.error().refusal != Refusal::not_found) {
      return std::unexpected(explained(told.error(), "looking at the droplet " + id));
    }
  }
  return out;
}

// A creation that was accepted may fail afterwards: the droplet disappears or stays as it is, and
// only its action says so.
void Droplets::add_failed(const std::vector<std::string>& ids, std::vector<MachineStatus>& out,
                          Time deadline) {
  const Time now = api_.world().now();
  std::size_t asked = 0;
  for (const std::string& id : ids) {
    const auto creation = creations_.find(id);
    if (creation == creations_.end() || now < creation->second.look_at) continue;
    const auto seen =
        std::ranges::find_if(out, [&](const MachineStatus& one) { return one.instance.id == id; });
    if (seen != out.end() && seen->stage != Stage::pending) continue;
    if (++asked > kMostSingleRequests) return;
    creation->second.look_at = now + kCreationTime;
    const auto status = api_.action_status(creation->second.action, deadline);
    if (!status || *status != "errored") continue;
    MachineStatus failed = seen == out.end() ? MachineStatus{.zone = facts_.region} : *seen;
    failed.instance.id = id;
    if (failed.instance.instance_type.empty()) failed.instance.instance_type = "a droplet";
    // It still has to be deleted where it stands.
    failed.stage = seen == out.end() ? Stage::terminated : Stage::stopped;
    failed.reason = "errored";
    failed.message = "DigitalOcean accepted its creation, which failed";
    failed.capacity = true;
    if (seen == out.end()) {
      out.push_back(std::move(failed));
    } else {
      *seen = std::move(failed);
    }
  }
}

Result<std::vector<MachineStatus>> Droplets::look_up(const std::vector<std::string>& asked,
                                                     Time deadline) {
  std::vector<std::string> ids;
  std::ranges::copy_if(asked, std::back_inserter(ids), is_droplet_id);
  if (ids.empty()) return std::vector<MachineStatus>();
  std::vector<MachineStatus> out;
  if (ids.size() <= kMostSingleRequests) {
    auto found = look_up_each(ids, deadline);
    if (!found) return found;
    out = *std::move(found);
  } else {
    const auto all = all_droplets(api_, deadline);
    if (!all) return std::unexpected(explained(all.error(), "listing droplets"));
    const std::set<std::string> wanted(ids.begin(), ids.end());
    for (const Droplet& one : *all) {
      if (wanted.contains(one.id)) out.push_back(to_status(one));
    }
  }
  add_failed(ids, out, deadline);
  return out;
}

// Each by itself. One that is still being created refuses to go, and is asked again.
Result<std::vector<std::string>> Droplets::terminate(const std::vector<std::string>& ids,
                                                     Time deadline) {
  std::vector<std::string> heard;
  Status trouble;
  for (const std::string& id : ids) {
    if (!is_droplet_id(id)) continue;
    const auto done = api_.delete_droplet(id, deadline);
    if (done) {
      heard.push_back(id);
      continue;
    }
    const Refusal why = done.error().refusal;
    if (why != Refusal::not_found && why != Refusal::conflict && trouble) {
      trouble = std::unexpected(explained(done.error(), "deleting the droplet " + id));
    }
  }
  if (!trouble) return fail(trouble);
  return heard;
}

}  // namespace skyward::provider::digital_ocean
