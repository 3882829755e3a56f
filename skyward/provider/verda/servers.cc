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

// Its private networks are not used: machines reach each other by the addresses that everybody has.
NamedMachine to_machine(const Server& told) {
  NamedMachine out{.name = told.hostname,
                   .status = {.instance = {.id = told.id, .spot = told.spot, .private_ip = told.ip},
                              .zone = told.location,
                              .stage = stage_of(told)}};
  MachineStatus& status = out.status;
  if (!told.ip.empty()) status.instance.public_ip = told.ip;
  status.instance.instance_type = told.type;
  if (status.stage >= Stage::stopped) status.reason = told.status;
  status.switched_off = told.status == "offline";
  // Another one may start: only a machine that somebody deletes did not end by Verda's doing.
  status.capacity = status.stage >= Stage::stopped && (told.spot || told.status != "deleting");
  return out;
}

}  // namespace

ApiResult<std::vector<NamedMachine>> list_servers(Api& api, Time deadline) {
  return mapped(api.servers(deadline), to_machine);
}

Servers::Servers(Api& api, std::string location, Mark mark, ServerRequest common,
                 std::map<std::string, std::string> images)
    : RestMachines({.cloud = kCloud,
                    .region = std::move(location),
                    .listing_lag = 60s,
                    .known_after = 120s,
                    // A machine cannot be deleted before it runs.
                    .release_time = 900s,
                    .unanswered_limit_s = 1800,
                    .doubt = 10s,
                    .launch_tries = kLaunchTries,
                    .most_per_batch = 1,
                    .runs_first = true},
                   kProvider, std::move(mark)),
      api_(api),
      common_(std::move(common)),
      images_(std::move(images)) {}

bool Servers::is_id(std::string_view id) const { return !id.empty() && is_made_of(id, "-"); }

ApiResult<NamedMachine> Servers::get(const std::string& id, Time deadline) {
  return mapped(api_.server(id, deadline), to_machine);
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

// The disks that the machines start from, by machine. A disk that is not known goes to the trash
// with its machine, and is deleted from there with the pool's other volumes.
std::map<std::string, std::string> Servers::disks_of(const std::vector<std::string>& ids,
                                                     Time deadline) {
  std::map<std::string, std::string> out;
  if (const auto told = api_.servers(deadline)) {
    for (const Server& one : *told) out[one.id] = one.disk;
    return out;
  }
  for (const std::string& id : ids) {
    const auto one = api_.server(id, deadline);
    if (one) out[id] = one->disk;
    if (!one && one.error().status == 0) break;  // nothing is answered
  }
  return out;
}

// With their own disks; what somebody has attached to them stays. One disk for each: a request with
// a list of disks leaves alone the disk of a machine that is not in it.
ApiResult<std::vector<ApiResult<void>>> Servers::remove_all(const std::vector<std::string>& ids,
                                                            Time deadline) {
  // Machines cost money, and go whether or not their disks are known.
  const Time now = api_.world().now();
  std::map<std::string, std::string> disks = disks_of(ids, now + (deadline - now) / 2);
  std::vector<ApiResult<void>> out(ids.size());
  std::vector<ServerDisk> with_disk;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ServerDisk one{.server = ids[i], .disk = disks[ids[i]]};
    if (!one.disk.empty()) {
      with_disk.push_back(std::move(one));
      continue;
    }
    // Too young to be listed, or to have a disk; or gone; or its disk is not known.
    const auto alone = api_.delete_servers({one}, deadline);
    out[i] = alone ? alone->front() : ApiResult<void>(std::unexpected(alone.error()));
  }
  if (with_disk.empty()) return out;
  const auto done = api_.delete_servers(with_disk, deadline);
  if (!done) return std::unexpected(done.error());
  for (std::size_t i = 0; i < with_disk.size(); ++i) {
    const auto at = std::ranges::find(ids, with_disk[i].server);
    out[static_cast<std::size_t>(at - ids.begin())] = (*done)[i];
  }
  return out;
}

}  // namespace skyward::provider::verda
