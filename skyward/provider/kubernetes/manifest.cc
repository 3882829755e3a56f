#include "skyward/provider/kubernetes/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "skyward/provider/json_read.h"

namespace skyward::provider::kubernetes {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr const char* kHome = "/home/skyward";  // where the image's own may not be written to
constexpr std::int64_t kLongestLife_s = 2'147'483'647;
// What is left of the grace when the agent has read the notice.
constexpr Duration kNoticeLag = 2s;

// The directory is new: a container of ours is never restarted.
constexpr const char* kKeeper = R"sh(
trap 'printf "%s the cluster ends this pod\n" "$left" >"$d/notice.new"
mv "$d/notice.new" "$d/notice"' TERM
say() { [ ! -w /dev/termination-log ] || echo "skyward: $1" >/dev/termination-log; }
mkdir -m 700 "$d" && true >"$d/claimed" || { say "cannot write to $d"; exit 1; }
)sh";
// `kubectl describe pod` shows it.
constexpr const char* kEnd = R"sh(
[ -e "$d/over" ] || say "no agent has been here for $limit minutes"
exit 0
)sh";

// 2500 MiB, 1.5 processors.
std::string memory_text(std::int64_t memory_mb) { return fmt::format("{}Mi", memory_mb); }
std::string cpu_text(double cpus) { return fmt::format("{:.0f}m", std::ceil(cpus * 1000)); }

// With both, the pod is the last to be evicted.
json resources_of(const PodRequest& request) {
  json requests{
      {"cpu", cpu_text(request.cpus > 0 ? request.cpus : kLeastCpus)},
      {"memory", memory_text(request.memory_mb > 0 ? request.memory_mb : kLeastMemory_mb)}};
  json limits = json::object();
  if (request.cpus > 0) limits["cpu"] = cpu_text(request.cpus);
  if (request.memory_mb > 0) limits["memory"] = memory_text(request.memory_mb);
  if (request.gpus > 0) {
    requests[request.gpu_resource] = limits[request.gpu_resource] = std::to_string(request.gpus);
  }
  json out{{"requests", std::move(requests)}};
  if (!limits.empty()) out["limits"] = std::move(limits);
  return out;
}

json tolerations_of(const PodRequest& request) {
  json out = json::array();
  for (const Toleration& one : request.tolerations) {
    json toleration{{"key", one.key}, {"operator", one.value ? "Equal" : "Exists"}};
    if (one.value) toleration["value"] = *one.value;
    if (!one.effect.empty()) toleration["effect"] = one.effect;
    out.push_back(std::move(toleration));
  }
  return out;
}

json container_of(const PodRequest& request) {
  json mounts = json::array({{{"name", "shm"}, {"mountPath", "/dev/shm"}}});
  json security{{"allowPrivilegeEscalation", false}};
  json out{{"name", kContainer},
           {"image", request.image},
           {"command", {"sh", "-c", request.keeper}},
           {"resources", resources_of(request)}};
  if (request.user) {
    mounts.push_back({{"name", "home"}, {"mountPath", kHome}});
    security["capabilities"] = {{"drop", {"ALL"}}};
    out["env"] = json::array({{{"name", "HOME"}, {"value", kHome}}});
  }
  out["volumeMounts"] = std::move(mounts);
  out["securityContext"] = std::move(security);
  return out;
}

json spec_of(const PodRequest& request) {
  json volumes = json::array({{{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}}});
  json security{{"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (request.user) {
    volumes.push_back({{"name", "home"}, {"emptyDir", json::object()}});
    security["runAsNonRoot"] = true;
    for (const char* name : {"runAsUser", "runAsGroup", "fsGroup"}) security[name] = *request.user;
  }
  const auto life_s = std::chrono::ceil<std::chrono::seconds>(request.life).count();
  json out{{"restartPolicy", "Never"},
           {"activeDeadlineSeconds", std::clamp<std::int64_t>(life_s, 1, kLongestLife_s)},
           {"terminationGracePeriodSeconds", kGrace / 1s},
           {"enableServiceLinks", false},
           {"securityContext", std::move(security)},
           {"volumes", std::move(volumes)},
           {"containers", json::array({container_of(request)})}};
  // Functions get the rights that their pool was given, and no others.
  if (request.service_account.empty()) {
    out["automountServiceAccountToken"] = false;
  } else {
    out["serviceAccountName"] = request.service_account;
  }
  if (!request.selector.empty()) out["nodeSelector"] = request.selector;
  if (!request.tolerations.empty()) out["tolerations"] = tolerations_of(request);
  return out;
}

}  // namespace

std::string selector_of(std::string_view pool) {
  return pool.empty() ? fmt::format("{}=skyward", kManagedLabel)
                      : fmt::format("{}=skyward,{}={}", kManagedLabel, kPoolLabel, pool);
}

std::string keeper_script(const KeeperTerms& terms) {
  return keeper_settings(kKeeperDirectory, terms) +
         fmt::format(" left={}", (kGrace - kNoticeLag) / 1ms) + kKeeper + kKeepWhileClaimed + kEnd;
}

std::string manifest_of(const PodRequest& request, const std::vector<std::string>& names,
                        const Mark& mark) {
  // The sidecar of a mesh would run on when our container has ended, and keep the pod and its GPUs.
  // Kuma and newer versions of Istio read labels, the others annotations.
  const json labels{{"app.kubernetes.io/name", "skyward"},
                    {"app.kubernetes.io/component", "node"},
                    {kManagedLabel, "skyward"},
                    {kPoolLabel, mark.pool},
                    {"sidecar.istio.io/inject", "false"},
                    {"kuma.io/sidecar-injection", "disabled"}};
  // No controller would start the pod elsewhere, and its calls would start over: autoscalers are
  // not to move it in order to save a machine.
  const json annotations{{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"},
                         {"karpenter.sh/do-not-disrupt", "true"},
                         {"sidecar.istio.io/inject", "false"},
                         {"linkerd.io/inject", "disabled"},
                         {"consul.hashicorp.com/connect-inject", "false"}};
  json items = json::array();
  const json spec = spec_of(request);
  for (const std::string& name : names) {
    items.push_back(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata", {{"name", name}, {"labels", labels}, {"annotations", annotations}}},
         {"spec", spec}});
  }
  return json_line({{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}});
}

}  // namespace skyward::provider::kubernetes
