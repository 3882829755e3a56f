#include "skyward/provider/kubernetes/pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::kubernetes {

namespace {

using namespace std::chrono_literals;

constexpr int kLaunchTries = 3;
// An API server may go on with a request that its client has given up.
constexpr Duration kLateCreation = 3s;
constexpr std::int64_t kUnanswered_s = 300;
// A kubelet ends a pod when its grace is over. One that does not is cut off or off itself.
constexpr std::int64_t kKubeletLag_s = 60;
// A registry may fail for moments.
constexpr Duration kPullPatience = 60s;
constexpr Duration kSlowestLook = 5s;
// Small images are there before that.
constexpr Duration kSlowStart = 15s;
// A cluster's control plane is updated while its pods run.
constexpr Duration kPatience = 10min;
constexpr int kMostPerCommand = 50;
constexpr Duration kRollback = 60s;

bool is_pull_trouble(std::string_view code) {
  return code == "ErrImagePull" || code == "ImagePullBackOff" || code == "RegistryUnavailable" ||
         code == "ImageInspectError";
}

// The registry has answered, and will do so again.
bool is_definite(std::string_view message) {
  constexpr std::string_view kSigns[] = {"not found",        "denied",
                                         "unauthorized",     "does not exist",
                                         "manifest unknown", "no match for platform",
                                         "forbidden"};
  const std::string words = lower(message);
  return std::ranges::any_of(kSigns, [&](std::string_view sign) { return words.contains(sign); });
}

MachineStatus status_of(const Pod& pod, PodMemory& memory, Time now, std::int64_t wall_s) {
  MachineStatus out{.instance = {.id = pod.name, .private_ip = pod.ip},
                    .zone = pod.node,
                    .stage = stage_of(pod, wall_s)};
  out.switched_off = out.stage == Stage::stopped;
  if (out.stage == Stage::running) memory.ran = true;
  if (out.stage == Stage::pending) {
    if (const auto never = never_starts(pod, memory, now)) {
      out.stage = Stage::stopped;
      out.reason = never->code;
      out.message = never->message;
      out.hint = hint_of(*never);
    } else if (pod.unscheduled) {
      out.message = pod.unscheduled->message;
      out.hint = hint_of(*pod.unscheduled);
    }
  } else if (out.stage != Stage::running) {
    const Reason why = pod.disrupted ? *pod.disrupted : pod.ended.value_or(Reason{.code = "ended"});
    out.reason = why.code;
    out.message = why.message;
    out.capacity = pod.disrupted.has_value() || why.code == "Evicted";
    if (!out.capacity) out.hint = hint_of(why);
  }
  return out;
}

}  // namespace

std::optional<Reason> never_starts(const Pod& pod, PodMemory& memory, Time now) {
  if (!pod.waiting) return std::nullopt;
  const Reason& why = *pod.waiting;
  constexpr std::string_view kFinal[] = {"InvalidImageName",     "ErrImageNeverPull",
                                         "CreateContainerError", "CreateContainerConfigError",
                                         "RunContainerError",    "CrashLoopBackOff"};
  if (std::ranges::find(kFinal, why.code) != std::end(kFinal)) return why;
  if (!is_pull_trouble(why.code)) return std::nullopt;
  if (!memory.trouble) memory.trouble = now;
  // While it backs off, the kubelet does not repeat why.
  if (why.code == "ErrImagePull" || memory.cause.empty()) memory.cause = why.message;
  const bool is_over = is_definite(memory.cause) || now - *memory.trouble >= kPullPatience;
  return is_over ? std::optional(Reason{.code = why.code, .message = memory.cause}) : std::nullopt;
}

std::string hint_of(const Reason& reason) {
  if (is_pull_trouble(reason.code) || reason.code == "InvalidImageName") {
    return "check image=; for a private registry, give a service_account= that has its "
           "imagePullSecrets";
  }
  if (reason.code == "Unschedulable") {
    return "'kubectl describe nodes' shows what they have and what is in use; ask for less, or "
           "wait";
  }
  constexpr std::string_view kNoStart[] = {"RunContainerError", "CreateContainerError",
                                           "StartError", "ContainerCannotRun"};
  if (std::ranges::find(kNoStart, reason.code) != std::end(kNoStart)) {
    return "the container image needs sh and bash: use another one with image=";
  }
  if (reason.code == "OOMKilled") return "ask for more memory: memory_gb=";
  return "'kubectl describe pod' and 'kubectl get events' show more";
}

Stage stage_of(const Pod& pod, std::int64_t wall_s) {
  if (pod.deleted_s) {
    return wall_s - *pod.deleted_s > kKubeletLag_s ? Stage::terminated : Stage::terminating;
  }
  if (pod.phase == "Running" && !pod.ended) {
    return pod.runs && !pod.ip.empty() ? Stage::running : Stage::pending;
  }
  return pod.phase == "Pending" || pod.phase.empty() ? Stage::pending : Stage::stopped;
}

std::string end_text(const Pod& pod) {
  const auto& why = pod.disrupted ? pod.disrupted : pod.ended;
  if (!why) return {};
  return fmt::format("Kubernetes: the pod {} was ended: {}{}{}", pod.name, why->code,
                     why->message.empty() ? "" : ": ", why->message);
}

std::string waiting_text(const std::vector<Pod>& pods) {
  int count = 0;
  std::string why;
  for (const Pod& pod : pods) {
    if (!pod.unscheduled || pod.deleted_s) continue;
    ++count;
    if (why.empty()) why = pod.unscheduled->message;
  }
  if (count == 0) return {};
  return fmt::format("Kubernetes: {} pod{} wait{}: {}", count, count == 1 ? "" : "s",
                     count == 1 ? "s" : "", why.empty() ? "no node yet" : why);
}

std::string preparing_text(const std::vector<Pod>& pods, Sight& sight, Time now) {
  int count = 0;
  for (const Pod& pod : pods) {
    const bool prepares = pod.waiting && (pod.waiting->code == "ContainerCreating" ||
                                          pod.waiting->code == "PodInitializing");
    if (!prepares || pod.deleted_s) continue;
    PodMemory& memory = sight.memories[pod.name];
    if (!memory.prepared) memory.prepared = now;
    if (now - *memory.prepared >= kSlowStart) ++count;
  }
  if (count == 0) return {};
  return fmt::format("Kubernetes: {} pod{} still {}: {} node pulls the image", count,
                     count == 1 ? "" : "s", count == 1 ? "starts" : "start",
                     count == 1 ? "its" : "their");
}

std::vector<NamedMachine> machines_of(const std::vector<Pod>& pods, Sight& sight, Time now) {
  std::vector<NamedMachine> out;
  for (const Pod& pod : pods) {
    PodMemory& memory = sight.memories[pod.name];
    MachineStatus status = status_of(pod, memory, now, sight.wall_s());
    out.push_back({.name = pod.name, .status = std::move(status)});
    const std::string end = memory.ran && !memory.told ? end_text(pod) : "";
    if (end.empty()) continue;
    memory.told = true;
    if (sight.tell) sight.tell(end);
  }
  return out;
}

Pods::Pods(Api& api, Sight& sight, std::string context, Mark mark, PodRequest request)
    : NamedMachines({.cloud = kCluster,
                     .region = std::move(context),
                     .listing_lag = kLateCreation,
                     .known_after = kLateCreation,
                     .release_time = 180s,
                     .unanswered_limit_s = kUnanswered_s,
                     .launch_tries = kLaunchTries,
                     .most_per_batch = kMostPerCommand,
                     .slowest_look = kSlowestLook,
                     .patience = kPatience,
                     .ends_itself = true},
                    kProvider, mark),
      api_(api),
      sight_(sight),
      mark_(std::move(mark)),
      request_(std::move(request)) {}

std::expected<std::vector<std::string>, LaunchRefusal> Pods::launch(const LaunchBatch& batch,
                                                                    Time deadline) {
  std::vector<std::string> names;
  for (int number = 0; number < batch.count; ++number) names.push_back(name_of(batch, number));
  const Api::Created made =
      api_.create(manifest_of(request_, names, mark_), names.size(), deadline);
  if (!made.trouble) return names;
  LaunchRefusal why = refusal(*made.trouble);
  // The others were made all the same. Those that cannot be deleted now are found by their mark.
  if (why.certain && !made.names.empty()) {
    const auto gone = api_.remove(made.names, api_.now() + kRollback);
    why.certain = gone.has_value();
  }
  return std::unexpected(std::move(why));
}

ApiResult<std::vector<NamedMachine>> Pods::list(Time deadline) {
  const auto pods = api_.pods(selector_of(mark_.pool), deadline);
  if (!pods) return std::unexpected(pods.error());
  return machines_of(*pods, sight_, api_.now());
}

// One listing for all.
Result<std::vector<MachineStatus>> Pods::look_up(const std::vector<std::string>& ids,
                                                 Time deadline) {
  const Words names = ours(ids);
  if (names.empty()) return std::vector<MachineStatus>();
  const auto pods = api_.pods(selector_of(mark_.pool), deadline);
  if (!pods) return std::unexpected(explained(pods.error(), "listing pods"));
  std::string line = waiting_text(*pods);
  if (line.empty()) line = preparing_text(*pods, sight_, api_.now());
  if (!line.empty() && sight_.tell) sight_.tell(line);
  std::vector<MachineStatus> out;
  for (NamedMachine& one : machines_of(*pods, sight_, api_.now())) {
    if (std::ranges::find(names, one.name) != names.end()) out.push_back(std::move(one.status));
  }
  return out;
}

Result<std::vector<std::string>> Pods::terminate(const std::vector<std::string>& ids,
                                                 Time deadline) {
  auto heard = api_.remove(ours(ids), deadline);
  if (!heard) return std::unexpected(explained(heard.error(), "deleting pods"));
  return *std::move(heard);
}

}  // namespace skyward::provider::kubernetes
