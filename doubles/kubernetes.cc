#include "doubles/kubernetes.h"

#include <algorithm>

namespace skyward::doubles {
namespace {

constexpr Tariff kTariff{};  // a cluster has no prices

const std::map<int, std::string>& reasons() {
  static const std::map<int, std::string>& all = *new std::map<int, std::string>{
      {400, "BadRequest"}, {401, "Unauthorized"},     {403, "Forbidden"},
      {404, "NotFound"},   {405, "MethodNotAllowed"}, {409, "Conflict"},
      {422, "Invalid"},    {429, "TooManyRequests"},  {500, "InternalError"}};
  return all;
}

Json resource(const char* name, const char* kind, bool namespaced, Json verbs) {
  Json out{{"name", name},
           {"singularName", ""},
           {"namespaced", namespaced},
           {"kind", kind},
           {"verbs", std::move(verbs)}};
  if (std::string_view(name) == "pods") out["shortNames"] = {"po"};
  if (std::string_view(name) == "nodes") out["shortNames"] = {"no"};
  return out;
}

Json resources_of(const char* version, Json resources) {
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", version},
          {"resources", std::move(resources)}};
}

Json node_info() {
  Json out{{"architecture", "amd64"}, {"operatingSystem", "linux"}, {"kubeletVersion", "v1.30.0"}};
  for (const char* name : {"bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
                           "machineID", "osImage", "systemUUID"}) {
    out[name] = "";
  }
  return out;
}

bool selects(const std::string& selector, const Json& labels) {
  std::string_view rest = selector;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t equal = one.find('=');
    const std::string name(one.substr(0, equal));
    if (!labels.contains(name)) return false;
    std::string_view value = equal == std::string_view::npos ? "" : one.substr(equal + 1);
    if (value.starts_with('=')) value.remove_prefix(1);
    if (equal != std::string_view::npos && labels[name] != value) return false;
  }
  return true;
}

}  // namespace

Kubernetes::Kubernetes(std::uint64_t seed) : Cloud(seed, kTariff) {
  for (const char* name : {"default", "kube-system"}) {
    namespaces[name] = {{"metadata", {{"name", name}, {"labels", Json::object()}}}};
  }
}

std::map<std::string, std::string> Kubernetes::environment(const std::string&) const { return {}; }

const std::vector<Kubernetes::Route>& Kubernetes::routes() {
  using K = Kubernetes;
  const std::vector<const char*> listing{"limit", "continue", "labelSelector", "fieldSelector",
                                         "resourceVersion"};
  static const auto& all = *new std::vector<Route>{
      {"GET", "/version", "", {}, &K::version},
      {"GET", "/api", "", {}, &K::core_versions},
      {"GET", "/apis", "", {}, &K::groups},
      {"GET", "/api/v1", "", {}, &K::core_resources},
      {"GET", "/apis/authorization.k8s.io/v1", "", {}, &K::review_resources},
      {"GET", "/apis/policy/v1", "", {}, &K::policy_resources},
      {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", {}, &K::review_access},
      {"GET", "/api/v1/nodes", "list nodes", listing, &K::list_nodes},
      {"POST", "/api/v1/nodes", "create nodes", {}, &K::create_node},
      {"GET", "/api/v1/nodes/{}", "get nodes", {}, &K::get_node},
      {"DELETE", "/api/v1/nodes/{}", "delete nodes", {}, &K::delete_node},
      {"GET", "/api/v1/namespaces", "list namespaces", listing, &K::list_namespaces},
      {"POST", "/api/v1/namespaces", "create namespaces", {}, &K::create_namespace},
      {"GET", "/api/v1/namespaces/{}", "get namespaces", {}, &K::get_namespace},
      {"POST",
       "/api/v1/namespaces/{}/resourcequotas",
       "create resourcequotas",
       {},
       &K::create_quota},
      {"POST",
       "/api/v1/namespaces/{}/serviceaccounts",
       "create serviceaccounts",
       {},
       &K::create_service_account},
      {"GET", "/api/v1/pods", "list pods in all namespaces", listing, &K::list_pods},
      {"GET", "/api/v1/namespaces/{}/pods", "list pods", listing, &K::list_pods},
      {"POST", "/api/v1/namespaces/{}/pods", "create pods", {"dryRun"}, &K::create_pod},
      {"GET", "/api/v1/namespaces/{}/pods/{}", "get pods", {}, &K::get_pod},
      {"DELETE", "/api/v1/namespaces/{}/pods/{}", "delete pods", {}, &K::delete_pod},
      {"POST", "/api/v1/namespaces/{}/pods/{}/eviction", "create pods/eviction", {}, &K::evict_pod},
      {"GET", "/api/v1/namespaces/{}/events", "list events", listing, &K::list_events},
  };
  return all;
}

io::HttpReply Kubernetes::perform(const Request& request) {
  schedule();
  bool known = false;
  for (const Route& route : routes()) {
    const auto names = match(route.pattern, request);
    if (!names) continue;
    known = true;
    if (request.method != route.method) continue;
    std::vector<const char*> parameters{"timeout", "fieldManager", "pretty", "fieldValidation"};
    parameters.insert(parameters.end(), route.query.begin(), route.query.end());
    const std::vector<std::string> wrong = wrong_parameters(request, parameters);
    if (!wrong.empty()) return refuse_all(400, wrong);
    const std::string right = route.right;
    if (forbidden.contains(right)) {
      const std::string verb = right.substr(0, right.find(' '));
      const std::string what =
          right.substr(verb.size() + 1, right.find(' ', verb.size() + 1) - verb.size() - 1);
      const bool cluster = names->empty();
      return refusal(403, what + " is forbidden: User \"jane\" cannot " + verb + " resource \"" +
                              what + "\" in API group \"\" " +
                              (cluster ? "at the cluster scope"
                                       : "in the namespace \"" + names->front() + "\""));
    }
    return (this->*route.perform)(request, *names);
  }
  if (request.path.starts_with("/openapi")) return refusal(404, "there is no " + request.path);
  violate("there is no " + request.method + " " + request.path);
  return known ? refusal(405, "the server does not allow this method on the requested resource")
               : refusal(404, "the server could not find the requested resource");
}

io::HttpReply Kubernetes::refusal(int status, const std::string& what) {
  return refuse(status, reasons().at(status), what);
}

io::HttpReply Kubernetes::refuse(int status, const std::string& reason, const std::string& what) {
  return json_reply(status, {{"kind", "Status"},
                             {"apiVersion", "v1"},
                             {"metadata", Json::object()},
                             {"status", "Failure"},
                             {"message", what},
                             {"reason", reason},
                             {"details", Json::object()},
                             {"code", status}});
}

io::HttpReply Kubernetes::control_own(const Request& request) {
  if (request.method != "POST" || request.path != "/_double/cluster") return {.status = 404};
  const auto wrong =
      misfits(request.body, {{"forbidden", Kind::list}, {"unpullable", Kind::object}}, "a cluster");
  if (!wrong.empty()) return json_reply(400, {{"error", wrong.front()}});
  if (request.body.contains("forbidden")) {
    forbidden = request.body["forbidden"].get<std::set<std::string>>();
  }
  if (request.body.contains("unpullable")) {
    unpullable = request.body["unpullable"].get<std::map<std::string, std::string>>();
  }
  return json_reply(200, Json::object());
}

// ---- What there is

io::HttpReply Kubernetes::version(const Request&, const Names&) {
  return json_reply(200, {{"major", "1"},
                          {"minor", "30"},
                          {"gitVersion", "v1.30.0"},
                          {"gitCommit", "0"},
                          {"gitTreeState", "clean"},
                          {"buildDate", "2024-04-17T00:00:00Z"},
                          {"goVersion", "go1.22.2"},
                          {"compiler", "gc"},
                          {"platform", "linux/amd64"}});
}

io::HttpReply Kubernetes::core_versions(const Request&, const Names&) {
  return json_reply(200, {{"kind", "APIVersions"},
                          {"versions", {"v1"}},
                          {"serverAddressByClientCIDRs", Json::array()}});
}

io::HttpReply Kubernetes::groups(const Request&, const Names&) {
  Json out = Json::array();
  for (const std::string name : {"authorization.k8s.io", "policy"}) {
    const Json version{{"groupVersion", name + "/v1"}, {"version", "v1"}};
    out.push_back({{"name", name}, {"versions", {version}}, {"preferredVersion", version}});
  }
  return json_reply(200,
                    {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(out)}});
}

io::HttpReply Kubernetes::core_resources(const Request&, const Names&) {
  const Json all{"create", "delete", "get", "list"};
  return json_reply(
      200, resources_of("v1", {resource("namespaces", "Namespace", false, all),
                               resource("nodes", "Node", false, all),
                               resource("events", "Event", true, {"list"}),
                               resource("pods", "Pod", true, all),
                               resource("pods/exec", "PodExecOptions", true, {"create", "get"}),
                               resource("resourcequotas", "ResourceQuota", true, {"create"}),
                               resource("serviceaccounts", "ServiceAccount", true, {"create"})}));
}

io::HttpReply Kubernetes::review_resources(const Request&, const Names&) {
  return json_reply(
      200, resources_of("authorization.k8s.io/v1",
                        Json::array({resource("selfsubjectaccessreviews", "SelfSubjectAccessReview",
                                              false, {"create"})})));
}

io::HttpReply Kubernetes::policy_resources(const Request&, const Names&) {
  return json_reply(200, resources_of("policy/v1", Json::array()));
}

io::HttpReply Kubernetes::review_access(const Request& request, const Names&) {
  const Json asked = request.body.value("/spec/resourceAttributes"_json_pointer, Json::object());
  const auto wrong = misfits(asked,
                             {{"verb", Kind::text, true},
                              {"resource", Kind::text, true},
                              {"subresource", Kind::text},
                              {"namespace", Kind::text, true},
                              {"group", Kind::text}},
                             "a review");
  if (!wrong.empty()) return refuse_all(400, wrong);
  std::string right = asked["verb"].get<std::string>() + " " + asked["resource"].get<std::string>();
  if (asked.contains("subresource")) right += "/" + asked["subresource"].get<std::string>();
  Json out = request.body;
  out["metadata"]["creationTimestamp"] = nullptr;
  out["status"] = {{"allowed", !forbidden.contains(right)}};
  return json_reply(201, out);
}

// ---- Nodes and namespaces

void Kubernetes::add_node(const std::string& name, const Json& resources, const Json& labels,
                          const Json& taints) {
  Json all = labels;
  all["kubernetes.io/hostname"] = name;
  Json capacity = resources;
  if (!capacity.contains("pods")) capacity["pods"] = "110";
  nodes[name] = {
      {"metadata", metadata({{"labels", all}}, name, now())},
      {"spec", {{"taints", taints}}},
      {"status",
       {{"capacity", capacity},
        {"allocatable", capacity},
        {"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "KubeletReady"}}}},
        {"nodeInfo", node_info()}}}};
}

Json Kubernetes::metadata(Json given, const std::string& name, Time made) {
  given["name"] = name;
  given["uid"] = dice().uuid();
  given["resourceVersion"] = std::to_string(heard.size() + 1);
  given["creationTimestamp"] = wall_text(made);
  return given;
}

Json Kubernetes::listed(const std::string& kind, const Json& items) const {
  return {{"kind", kind + "List"},
          {"apiVersion", "v1"},
          {"metadata", {{"resourceVersion", std::to_string(heard.size())}}},
          {"items", items}};
}

// A page of those that the selector of labels chooses.
io::HttpReply Kubernetes::paged(const Request& request, const std::string& kind,
                                const Json& items) {
  const auto parameter = [&](const char* name) {
    const auto found = request.query.find(name);
    return found == request.query.end() ? std::string() : found->second;
  };
  Json chosen = Json::array();
  for (const Json& one : items) {
    const Json labels = one.value("/metadata/labels"_json_pointer, Json::object());
    if (selects(parameter("labelSelector"), labels)) chosen.push_back(one);
  }
  const auto begin = static_cast<std::size_t>(whole(parameter("continue")).value_or(0));
  const auto limit = static_cast<std::size_t>(whole(parameter("limit")).value_or(0));
  Json page = Json::array();
  for (std::size_t at = begin; at < chosen.size() && (limit == 0 || at < begin + limit); ++at) {
    page.push_back(chosen[at]);
  }
  Json out = listed(kind, page);
  if (begin + page.size() < chosen.size()) {
    out["metadata"]["continue"] = std::to_string(begin + page.size());
  }
  return json_reply(200, out);
}

io::HttpReply Kubernetes::list_nodes(const Request& request, const Names&) {
  Json items = Json::array();
  for (const auto& [name, node] : nodes) items.push_back(node);
  return paged(request, "Node", items);
}

io::HttpReply Kubernetes::get_node(const Request&, const Names& names) {
  const auto found = nodes.find(names[0]);
  if (found == nodes.end()) return refusal(404, "nodes \"" + names[0] + "\" not found");
  Json out = found->second;
  out["kind"] = "Node";
  out["apiVersion"] = "v1";
  return json_reply(200, out);
}

io::HttpReply Kubernetes::create_node(const Request& request, const Names&) {
  const Json name = request.body.value("/metadata/name"_json_pointer, Json());
  if (!name.is_string()) return refuse_all(422, {"a node has no name"});
  add_node(name, request.body.value("/status/allocatable"_json_pointer, Json::object()),
           request.body.value("/metadata/labels"_json_pointer, Json::object()),
           request.body.value("/spec/taints"_json_pointer, Json::array()));
  return json_reply(201, nodes[name]);
}

// Its pods go with it.
io::HttpReply Kubernetes::delete_node(const Request&, const Names& names) {
  if (nodes.erase(names[0]) == 0) return refusal(404, "nodes \"" + names[0] + "\" not found");
  for (Machine& one : machines) {
    if (one.is_there(now()) && pods_[one.id].node == names[0]) end_pod(one, Duration{});
  }
  return json_reply(200, {{"kind", "Status"}, {"status", "Success"}});
}

io::HttpReply Kubernetes::list_namespaces(const Request& request, const Names&) {
  Json items = Json::array();
  for (const auto& [name, space] : namespaces) items.push_back(space);
  return paged(request, "Namespace", items);
}

io::HttpReply Kubernetes::get_namespace(const Request&, const Names& names) {
  const auto found = namespaces.find(names[0]);
  if (found == namespaces.end()) return refusal(404, "namespaces \"" + names[0] + "\" not found");
  return json_reply(200, found->second);
}

io::HttpReply Kubernetes::create_namespace(const Request& request, const Names&) {
  const Json name = request.body.value("/metadata/name"_json_pointer, Json());
  if (!name.is_string()) return refuse_all(422, {"a namespace has no name"});
  Json given = request.body["metadata"];
  if (!given.contains("labels")) given["labels"] = Json::object();
  namespaces[name] = {{"metadata", metadata(given, name, now())}};
  return json_reply(201, namespaces[name]);
}

io::HttpReply Kubernetes::create_quota(const Request& request, const Names& names) {
  const Json name = request.body.value("/metadata/name"_json_pointer, Json());
  if (!name.is_string()) return refuse_all(422, {"a quota has no name"});
  quotas[names[0] + "/" + name.get<std::string>()] =
      request.body.value("/spec/hard"_json_pointer, Json::object());
  return json_reply(201, request.body);
}

io::HttpReply Kubernetes::create_service_account(const Request& request, const Names& names) {
  const Json name = request.body.value("/metadata/name"_json_pointer, Json());
  if (!name.is_string()) return refuse_all(422, {"a service account has no name"});
  service_accounts.insert(names[0] + "/" + name.get<std::string>());
  return json_reply(201, request.body);
}

}  // namespace skyward::doubles
