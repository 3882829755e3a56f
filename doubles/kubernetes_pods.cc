// Pods of the double: what is admitted, and what becomes of it.

#include <algorithm>

#include "doubles/kubernetes.h"
#include "doubles/kubernetes_facts.h"

namespace skyward::doubles {
namespace {

constexpr Duration kEvictionGrace = std::chrono::seconds(30);

std::string condition_status(bool is_true) { return is_true ? "True" : "False"; }

std::string amount(double value) {
  const auto whole = static_cast<long long>(value);
  return static_cast<double>(whole) == value ? std::to_string(whole) : std::to_string(value);
}

}  // namespace

Machine* Kubernetes::find_pod(const std::string& space, const std::string& name) {
  Machine* const one = find_machine(name);
  return one != nullptr && pods_[name].space == space ? one : nullptr;
}

// ---- Admission

// Of each quota of the namespace that would be exceeded, the first words.
std::string Kubernetes::over_quota(const Json& pod, const std::string& space) const {
  const auto take = [](const Json& one, const std::string& key) -> double {
    if (key == "pods" || key == "count/pods") return 1;
    const std::string name = key.starts_with("requests.") ? key.substr(9) : key;
    const Resources all = requests_of(one);
    const auto found = all.find(name);
    return found == all.end() ? 0 : found->second;
  };
  for (const auto& [where, hard] : quotas) {
    if (!where.starts_with(space + "/")) continue;
    for (const auto& [key, limit] : hard.items()) {
      const double wanted = take(pod, key);
      double used = 0;
      for (const Machine& one : machines) {
        const bool counts = pods_.at(one.id).space == space && one.is_there(now());
        if (counts && !is_over(one)) used += take(one.request, key);
      }
      if (wanted == 0 || used + wanted <= read_quantity(limit).value_or(0)) continue;
      const auto part = [&](double value) { return key + "=" + amount(value); };
      return "exceeded quota: " + where.substr(space.size() + 1) + ", requested: " + part(wanted) +
             ", used: " + part(used) + ", limited: " + part(read_quantity(limit).value_or(0));
    }
  }
  return {};
}

std::optional<io::HttpReply> Kubernetes::not_admitted(const Json& pod, const std::string& space) {
  const std::string name = pod["metadata"]["name"];
  const auto forbid = [&](const std::string& why) {
    return refusal(403, "pods \"" + name + "\" is forbidden: " + why);
  };
  const std::string account = pod["spec"].value("serviceAccountName", "default");
  if (account != "default" && !service_accounts.contains(space + "/" + account)) {
    return forbid("error looking up service account " + space + "/" + account +
                  ": serviceaccount \"" + account + "\" not found");
  }
  const Json labels = namespaces[space].value("/metadata/labels"_json_pointer, Json::object());
  const std::string standard = labels.value("pod-security.kubernetes.io/enforce", "privileged");
  std::string all;
  for (const std::string& one : insecure_parts(pod, standard)) {
    all += (all.empty() ? "" : ", ") + one;
  }
  if (!all.empty()) return forbid("violates PodSecurity \"" + standard + ":latest\": " + all);
  const std::string over = over_quota(pod, space);
  if (!over.empty()) return forbid(over);
  return std::nullopt;
}

io::HttpReply Kubernetes::create_pod(const Request& request, const Names& names) {
  const std::string& space = names[0];
  if (!namespaces.contains(space)) {
    return refusal(404, "namespaces \"" + space + "\" not found");
  }
  const Json& pod = request.body;
  const auto unknown = wrong_form(pod);
  if (!unknown.empty()) return refuse_all(400, unknown);
  const std::string name = pod["metadata"]["name"];
  const auto broken = broken_rules(pod);
  if (!broken.empty()) {
    violate(broken.front());
    return refusal(422, "Pod \"" + name + "\" is invalid: " + broken.front());
  }
  if (pod["metadata"].value("namespace", space) != space) {
    return refuse_all(400, {"the namespace of the object does not match that of the request"});
  }
  if (auto refused = not_admitted(pod, space)) return *refused;
  for (const Machine& one : machines) {
    if (one.id == name && one.is_there(now())) {
      return refuse(409, "AlreadyExists", "pods \"" + name + "\" already exists");
    }
  }
  Json kept = pod;
  kept["metadata"] = metadata(pod["metadata"], name, now());
  kept["metadata"]["namespace"] = space;
  Machine& one = make_machine({.id = name, .name = space + "/" + name, .request = kept}, false);
  one.ready = kNever;
  pods_[name] = {.space = space};
  schedule();
  return json_reply(201, pod_json(one));
}

// ---- Looking

// Made with `one`'s moments: pending until it is on a node and its image is there, over when it has
// ended by itself.
Json Kubernetes::container_json(const Machine& one) const {
  const Json& container = one.request["spec"]["containers"][0];
  Json out{{"name", container["name"]},
           {"image", container["image"]},
           {"imageID", ""},
           {"restartCount", 0},
           {"ready", false},
           {"started", false}};
  const auto unpullable_image = unpullable.find(container["image"].get<std::string>());
  if (is_over(one)) {
    const bool failed = one.has_failed(now());
    out["state"]["terminated"] = {{"exitCode", failed ? 137 : 0},
                                  {"reason", failed ? "Error" : "Completed"},
                                  {"finishedAt", wall_text(std::min(one.failed, one.off))}};
  } else if (unpullable_image != unpullable.end()) {
    // The kubelet alternates between the two.
    const bool pulls = (now() - pods_.at(one.id).scheduled) / std::chrono::seconds(10) % 2 == 0;
    out["state"]["waiting"] = {
        {"reason", pulls ? "ErrImagePull" : "ImagePullBackOff"},
        {"message", pulls ? unpullable_image->second
                          : "Back-off pulling image \"" + unpullable_image->first + "\""}};
  } else if (one.is_new(now())) {
    out["state"]["waiting"] = {{"reason", "ContainerCreating"}};
  } else {
    out["state"]["running"] = {{"startedAt", wall_text(one.ready)}};
    out["ready"] = out["started"] = true;
  }
  return out;
}

Json Kubernetes::status_json(const Machine& one) const {
  const PodState& state = pods_.at(one.id);
  Json conditions = Json::array();
  const auto add = [&](const char* type, bool is_true, const char* reason = nullptr,
                       const std::string& message = {}) {
    Json condition{{"type", type},
                   {"status", condition_status(is_true)},
                   {"lastProbeTime", nullptr},
                   {"lastTransitionTime", wall_text(one.made)}};
    if (reason != nullptr) condition["reason"] = reason;
    if (!message.empty()) condition["message"] = message;
    conditions.push_back(std::move(condition));
  };
  Json out{{"phase", "Pending"}, {"qosClass", "Burstable"}};
  if (!state.disruption.is_null()) conditions.push_back(state.disruption);
  if (state.node.empty()) {
    add("PodScheduled", false, "Unschedulable", state.unfit);
    out["conditions"] = std::move(conditions);
    return out;
  }
  const bool runs = !is_over(one) && one.ready <= now();
  add("Initialized", true);
  add("Ready", runs);
  add("ContainersReady", runs);
  add("PodScheduled", true);
  out["conditions"] = std::move(conditions);
  out["hostIP"] = "192.0.2.1";
  out["startTime"] = wall_text(state.scheduled);
  out["containerStatuses"] = Json::array({container_json(one)});
  if (is_over(one)) {
    out["phase"] = one.has_failed(now()) ? "Failed" : "Succeeded";
    const Json life = one.request.value("/spec/activeDeadlineSeconds"_json_pointer, Json());
    const bool late = life.is_number() && one.failed == one.ready + from_seconds(life);
    if (one.has_failed(now())) {
      out["reason"] = late ? "DeadlineExceeded" : "Evicted";
      out["message"] = late ? "Pod was active on the node longer than the specified deadline"
                            : "The node was low on resource: memory.";
    }
  } else if (runs) {
    out["phase"] = "Running";
    out["podIP"] = one.private_address;
    out["podIPs"] = {{{"ip", one.private_address}}};
  }
  return out;
}

Json Kubernetes::pod_json(const Machine& one) {
  const PodState& state = pods_[one.id];
  Json out = one.request;
  out["kind"] = "Pod";
  out["apiVersion"] = "v1";
  if (!state.node.empty()) out["spec"]["nodeName"] = state.node;
  if (one.ended <= now()) {
    out["metadata"]["deletionTimestamp"] = wall_text(one.ended + state.grace);
    out["metadata"]["deletionGracePeriodSeconds"] =
        std::chrono::duration_cast<std::chrono::seconds>(state.grace).count();
  }
  out["status"] = status_json(one);
  return out;
}

io::HttpReply Kubernetes::get_pod(const Request&, const Names& names) {
  const Machine* const one = find_pod(names[0], names[1]);
  if (one == nullptr) return refusal(404, "pods \"" + names[1] + "\" not found");
  return json_reply(200, pod_json(*one));
}

io::HttpReply Kubernetes::list_pods(const Request& request, const Names& names) {
  const auto field = request.query.find("fieldSelector");
  const bool active = field != request.query.end() && field->second.contains("status.phase!=");
  Json items = Json::array();
  for (const Machine* one : listed_machines()) {
    if (!names.empty() && pods_[one->id].space != names[0]) continue;
    if (active && is_over(*one)) continue;
    items.push_back(pod_json(*one));
  }
  return paged(request, "Pod", items);
}

io::HttpReply Kubernetes::list_events(const Request& request, const Names& names) {
  Json items = Json::array();
  for (const Machine& one : machines) {
    const PodState& state = pods_[one.id];
    if (state.space != names[0] || !one.is_there(now()) || state.unfit.empty()) continue;
    items.push_back({{"metadata", {{"name", one.id + ".1"}, {"namespace", names[0]}}},
                     {"involvedObject", {{"kind", "Pod"}, {"name", one.id}}},
                     {"reason", "FailedScheduling"},
                     {"message", state.unfit},
                     {"type", "Warning"}});
  }
  return paged(request, "Event", items);
}

// ---- The end

void Kubernetes::end_pod(Machine& one, Duration grace) {
  if (one.ended != kNever) return;
  end_machine(one);
  pods_[one.id].grace = grace;
  if (pods_[one.id].node.empty() || is_over(one)) one.gone = now();
}

io::HttpReply Kubernetes::delete_pod(const Request& request, const Names& names) {
  Machine* const one = find_pod(names[0], names[1]);
  if (one == nullptr) return refusal(404, "pods \"" + names[1] + "\" not found");
  const Json body = request.body.is_null() ? Json::object() : without_nulls(request.body);
  const auto wrong = misfits(body,
                             {{"kind", Kind::text},
                              {"apiVersion", Kind::text},
                              {"gracePeriodSeconds", Kind::whole},
                              {"propagationPolicy", Kind::text}},
                             "the options of a deletion");
  if (!wrong.empty()) return refuse_all(400, wrong);
  const Json grace =
      body.value("gracePeriodSeconds",
                 one->request.value("/spec/terminationGracePeriodSeconds"_json_pointer, Json(30)));
  if (grace == 0) violate("a pod is deleted without its kubelet: it may go on running");
  end_pod(*one, from_seconds(grace));
  return json_reply(200, pod_json(*one));
}

// By the API, as when a node is drained.
io::HttpReply Kubernetes::evict_pod(const Request&, const Names& names) {
  Machine* const one = find_pod(names[0], names[1]);
  if (one == nullptr) return refusal(404, "pods \"" + names[1] + "\" not found");
  end_pod(*one, kEvictionGrace);
  pods_[one->id].disruption = {
      {"type", "DisruptionTarget"},        {"status", "True"},
      {"reason", "EvictionByEvictionAPI"}, {"message", "Eviction API: evicting"},
      {"lastProbeTime", nullptr},          {"lastTransitionTime", wall_text(now())}};
  return json_reply(201, {{"kind", "Status"}, {"status", "Success"}});
}

// For a pod of higher priority.
void Kubernetes::on_preempted(Machine& one) {
  PodState& state = pods_[one.id];
  state.grace = kEvictionGrace;
  state.disruption = {{"type", "DisruptionTarget"},
                      {"status", "True"},
                      {"reason", "PreemptionByScheduler"},
                      {"message",
                       "default-scheduler: preempting to accommodate a higher priority "
                       "pod"},
                      {"lastProbeTime", nullptr},
                      {"lastTransitionTime", wall_text(now())}};
}

}  // namespace skyward::doubles
