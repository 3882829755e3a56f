#include "skyward/provider/container/containers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace skyward::provider::container {

namespace {

using namespace std::chrono_literals;

constexpr int kLaunchTries = 3;
// A daemon may go on with a request that its client has given up.
constexpr Duration kLateCreation = 3s;
constexpr std::int64_t kUnanswered_s = 600;  // longer than a command to start one may take
constexpr int kMostPerLaunch = 50;
constexpr Duration kRollback = 60s;
constexpr const char* kNeeds =
    "the container image needs sh, bash, find, mkdir, rm, sleep and touch";

Stage stage_of(const ContainerStatus& one) {
  if (one.state == "running" || one.state == "paused") return Stage::running;
  if (one.state == "exited" || one.state == "stopped" || one.state == "dead") return Stage::stopped;
  if (one.state == "removing" || one.state == "stopping") return Stage::terminating;
  return Stage::pending;
}

}  // namespace

std::vector<NamedMachine> machines_of(const std::vector<ContainerStatus>& containers) {
  std::vector<NamedMachine> out;
  for (const ContainerStatus& one : containers) {
    MachineStatus status{.instance = {.id = one.name, .private_ip = one.address},
                         .stage = stage_of(one)};
    if (status.stage == Stage::stopped) {
      status.switched_off = true;
      status.reason = one.state;
      status.hint = kNeeds;
      status.message = one.out_of_memory ? "it used more memory than memory_gb= allows"
                                         : fmt::format("exit code {}", one.exit_code);
    }
    out.push_back({.name = one.name, .status = std::move(status)});
  }
  return out;
}

Containers::Containers(Api& api, std::string host, Mark mark, ContainerOrder order)
    : NamedMachines({.cloud = kContainers,
                     .region = std::move(host),
                     .listing_lag = kLateCreation,
                     .known_after = kLateCreation,
                     .release_time = kRollback,
                     .unanswered_limit_s = kUnanswered_s,
                     .launch_tries = kLaunchTries,
                     .most_per_batch = kMostPerLaunch,
                     .ends_itself = true},
                    kProvider, mark),
      api_(api),
      mark_(std::move(mark)),
      order_(std::move(order)) {}

// Once for all containers of the engine: it keeps images.
ApiResult<void> Containers::pull_image(Time deadline) {
  const std::string& image = order_.request.image;
  const auto there = api_.has_image(image, deadline);
  if (!there) return std::unexpected(there.error());
  if (*there) return {};
  if (order_.tell) order_.tell(fmt::format("Containers: pulling the image {}", image));
  return api_.pull(image, deadline);
}

std::expected<std::vector<std::string>, LaunchRefusal> Containers::launch(const LaunchBatch& batch,
                                                                          Time deadline) {
  if (const auto pulled = pull_image(deadline); !pulled) {
    LaunchRefusal why = refusal(pulled.error());
    why.certain = true;  // no container was asked for
    return std::unexpected(std::move(why));
  }
  ContainerRequest request = order_.request;
  std::vector<std::string> names;
  for (int number = 0; number < batch.count; ++number) names.push_back(name_of(batch, number));
  for (const std::string& name : names) {
    request.keeper = keeper_script(name, order_.terms, order_.life);
    const auto made = api_.create(request, name, mark_, deadline);
    if (made) {
      made_.push_back(name);
      continue;
    }
    LaunchRefusal why = refusal(made.error());
    // Those before it run already. What cannot be removed now is found by its mark.
    if (why.certain) why.certain = api_.remove(names, api_.now() + kRollback).has_value();
    return std::unexpected(std::move(why));
  }
  return names;
}

ApiResult<std::vector<NamedMachine>> Containers::list(Time deadline) {
  const auto found = api_.containers(mark_.pool, deadline);
  if (!found) return std::unexpected(found.error());
  return machines_of(*found);
}

// One command for all. A container that ends is removed with all that it has said.
Result<std::vector<MachineStatus>> Containers::look_up(const std::vector<std::string>& ids,
                                                       Time deadline) {
  const auto found = api_.look_at(ours(ids), deadline);
  if (!found) return std::unexpected(explained(found.error(), "looking at containers"));
  std::vector<MachineStatus> out;
  for (NamedMachine& one : machines_of(*found)) out.push_back(std::move(one.status));
  for (const std::string& name : made_) {
    const bool is_asked = std::ranges::find(ids, name) != ids.end();
    const bool is_there = std::ranges::find(*found, name, &ContainerStatus::name) != found->end();
    if (is_there || !is_asked) continue;
    out.push_back({.instance = {.id = name},
                   .stage = Stage::terminated,
                   .reason = "ended at once",
                   .message = "its keeper, a script for sh, has ended",
                   .hint = fmt::format("{}: use another one with image=", kNeeds)});
  }
  return out;
}

Result<std::vector<std::string>> Containers::terminate(const std::vector<std::string>& ids,
                                                       Time deadline) {
  auto heard = api_.remove(ours(ids), deadline);
  if (!heard) return std::unexpected(explained(heard.error(), "removing containers"));
  return *std::move(heard);
}

}  // namespace skyward::provider::container
