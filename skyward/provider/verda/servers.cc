#include "skyward/provider/verda/servers.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <utility>

#include "skyward/spec/plain_text.h"

namespace skyward::provider::verda {

namespace {

using namespace std::chrono_literals;

constexpr int kLaunchTries = 3;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

Stage stage_of(const Server& told) {
  if (told.status == "running") return told.ip.empty() ? Stage::pending : Stage::running;
  if (is_one_of(told.status,
                {"new", "ordered", "provisioning", "validating", "pending", "restoring"})) {
    return Stage::pending;
  }
  if (told.status == "deleting") return Stage::terminating;
  if (is_one_of(told.status, {"discontinued", "deleted", "notfound"})) {
    return Stage::terminated;
  }
  // "offline", "error", "no_capacity", and what there may be one day: it is deleted to be sure.
  return Stage::stopped;
}

// There is no network but the one outside: machines reach each other by the same addresses.
NamedMachine to_machine(const Server& told) {
  NamedMachine out{.name = told.hostname,
                   .status = {.instance = {.id = told.id, .spot = told.spot, .private_ip = told.ip},
                              .zone = told.location,
                              .stage = stage_of(told)}};
  MachineStatus& status = out.status;
  if (!told.ip.empty()) status.instance.public_ip = told.ip;
  status.instance.instance_type = told.type;
  if (status.stage >= Stage::stopped) status.reason = told.status;
  // A spot machine that is not there any more was preempted: another place may keep one.
  status.capacity = told.status == "no_capacity" || (told.spot && status.stage >= Stage::stopped);
  return out;
}

}  // namespace

ApiResult<std::vector<NamedMachine>> list_servers(Api& api, Time deadline) {
  const auto told = api.servers(deadline);
  if (!told) return std::unexpected(told.error());
  std::vector<NamedMachine> out;
  for (const Server& one : *told) out.push_back(to_machine(one));
  return out;
}

Servers::Servers(Api& api, std::string location, Mark mark, ServerRequest common,
                 std::map<std::string, std::string> images)
    : NamedMachines({.cloud = kCloud,
                     .region = std::move(location),
                     .listing_lag = 60s,
                     .known_after = 120s,
                     // A machine cannot be deleted before it runs.
                     .release_time = 900s,
                     .unanswered_limit_s = 1800,
                     .launch_tries = kLaunchTries,
                     .most_per_batch = 1,
                     .ends_itself = false},
                    kProvider, std::move(mark)),
      api_(api),
      common_(std::move(common)),
      images_(std::move(images)) {}

bool Servers::is_id(std::string_view id) const { return !id.empty() && is_made_of(id, "-"); }

ApiResult<NamedMachine> Servers::get(const std::string& id, Time deadline) {
  const auto told = api_.server(id, deadline);
  if (!told) return std::unexpected(told.error());
  return to_machine(*told);
}

std::expected<std::vector<std::string>, LaunchRefusal> Servers::launch(const LaunchBatch& batch,
                                                                       Time deadline) {
  ServerRequest request = common_;
  request.type = batch.place.type;
  request.location = batch.place.zone;
  request.spot = batch.spot;
  if (const auto image = images_.find(request.type); image != images_.end()) {
    request.image = image->second;
  }
  request.hostname = name_of(batch, 0);
  const auto made = api_.create_server(request, deadline);
  if (!made) return std::unexpected(refusal(made.error()));
  return std::vector<std::string>{*made};
}

// Its own disk goes with it; what somebody has attached to it stays.
ApiResult<void> Servers::remove(const std::string& id, Time deadline) {
  const auto told = api_.server(id, deadline);
  if (!told) return std::unexpected(told.error());
  return api_.delete_server(id, told->disk, deadline);
}

}  // namespace skyward::provider::verda
