#include "doubles/runpod.h"

#include <algorithm>

namespace skyward::doubles {

static constexpr double kDisk = 0.1 / 730;     // of a GB of a running pod, for an hour
static constexpr double kStopped = 0.2 / 730;  // of a GB that a pod keeps while it is stopped
static constexpr double kVolume = 0.07 / 730;

RunPod::RunPod(std::uint64_t seed) : Cloud(seed, {}) { api_key = "rpa_" + dice().hex(40); }

std::map<std::string, std::string> RunPod::environment(const std::string& url) const {
  return {{"RUNPOD_API_KEY", api_key}, {"RUNPOD_API_BASE_URL", url}};
}

const std::vector<RunPod::Route>& RunPod::routes() {
  static const auto& all = *new std::vector<Route>{
      {"GET",
       "/v2/catalog/gpus",
       {"include", "product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion"},
       &RunPod::list_gpus},
      {"GET", "/v2/catalog/cpus", {"include", "product", "vcpuCount"}, &RunPod::list_cpus},
      {"GET", "/v2/catalog/datacenters", {"regions", "globalNetwork"}, &RunPod::list_places},
      {"GET", "/v2/pods", {"includeClusterPods", "limit", "cursor"}, &RunPod::list_pods},
      {"POST", "/v2/pods", {}, &RunPod::create_pod},
      {"GET", "/v2/pods/{}", {}, &RunPod::get_pod},
      {"DELETE", "/v2/pods/{}", {}, &RunPod::delete_pod},
      {"POST", "/v2/pods/{}/action", {}, &RunPod::act},
      {"GET", "/v2/account/ssh-keys", {}, &RunPod::list_keys},
      {"PUT", "/v2/account/ssh-keys", {}, &RunPod::replace_keys},
      {"GET", "/v2/network-volumes", {}, &RunPod::list_volumes},
      {"POST", "/v2/network-volumes", {}, &RunPod::create_volume},
      {"GET", "/v2/network-volumes/{}", {}, &RunPod::get_volume},
      {"DELETE", "/v2/network-volumes/{}", {}, &RunPod::delete_volume},
      {"GET", "/v2/registries", {}, &RunPod::list_registries},
  };
  return all;
}

// As RFC 9457 has it.
io::HttpReply RunPod::refusal(int status, const std::string& what) {
  static const std::map<int, std::string>& titles = *new std::map<int, std::string>{
      {400, "Bad Request"},       {401, "Unauthorized"},      {402, "Payment Required"},
      {403, "Forbidden"},         {404, "Not Found"},         {409, "Conflict"},
      {422, "Validation Failed"}, {429, "Too Many Requests"}, {500, "Internal Server Error"},
      {503, "Unavailable"},       {405, "Method Not Allowed"}};
  const auto title = titles.find(status);
  Json body{{"title", title == titles.end() ? "Error" : title->second},
            {"status", status},
            {"detail", what}};
  if (status == 422) body["errors"] = {"$: " + what};
  return {.status = status,
          .headers = {{"Content-Type", "application/problem+json"}},
          .body = body.dump()};
}

std::vector<Pace> RunPod::paces(const Request&) const {
  return {{"minute", 60, std::chrono::seconds(1)}};
}

void RunPod::finish(const Request&, io::HttpReply& reply) {
  reply.headers.emplace_back("RateLimit", "\"minute\";r=59;t=60");
  reply.headers.emplace_back("RateLimit-Policy", "\"minute\";q=60;w=60");
}

io::HttpReply RunPod::perform(const Request& request) {
  const std::string said = request.header("Authorization");
  const std::string key = said.starts_with("Bearer ") ? said.substr(7) : "";
  const bool is_pods = std::ranges::any_of(
      leases_, [&](const auto& one) { return !key.empty() && one.second.key == key; });
  if (key != api_key && !is_pods) return refusal(401, "invalid api key");
  if (request.path == "/graphql") return graphql(request, key);
  if (is_pods) return refusal(403, "a pod's key may not do that");
  bool is_path = false;
  for (const Route& route : routes()) {
    const auto names = match(route.pattern, request);
    if (!names) continue;
    is_path = true;
    if (route.method != request.method) continue;
    std::vector<std::string> wrong = wrong_parameters(request, route.query);
    if ((request.method == "POST" || request.method == "PUT") && !request.body.is_object()) {
      wrong.emplace_back("a body that is no JSON object");
    }
    if (!wrong.empty()) return refuse_all(422, wrong);
    return (this->*route.perform)(request, *names);
  }
  violate(no_route(request, is_path));
  return refusal(is_path ? 405 : 404, "no such endpoint");
}

// Running costs its price and its disks; stopped, a pod keeps the disk that outlives its container.
double RunPod::bill(const Machine& one, Time at) const {
  if (one.failed != kNever) return 0;
  const Json mounts = one.request.value("mounts", Json::object());
  const double kept =
      mounts.contains("persistent") ? mounts["persistent"]["size"].get<double>() : 0;
  const double disk = one.request.value("disk", 20.0) + kept;
  const Time end = std::min(at, one.ended);
  const Duration stopped = one.paused + std::max(end - std::min(one.off, end), Duration{});
  const Duration ran = std::max(end - one.made - stopped, Duration{});
  return (seconds(ran) * (one.hourly + disk * kDisk) + seconds(stopped) * kept * kStopped) / 3600;
}

double RunPod::side_bill(Time at) const {
  double sum = 0;
  for (const Volume& one : volumes_) {
    sum += seconds(at - one.made) / 3600 * one.body["size"].get<double>() * kVolume;
  }
  return sum;
}

std::vector<std::string> RunPod::side_things() const {
  std::vector<std::string> out;
  for (const std::string& one : keys_) out.push_back("key " + one);
  for (const Volume& one : volumes_) out.push_back("volume " + one.id);
  return out;
}

// ---- the account --------------------------------------------------------------------------------

io::HttpReply RunPod::list_keys(const Request&, const Names&) {
  return json_reply(200, {{"keys", keys_}});
}

// All of them: a client that adds one by what it read a moment ago forgets what others added.
io::HttpReply RunPod::replace_keys(const Request& request, const Names&) {
  const auto wrong = misfits(request.body, {{"keys", Kind::list, true}}, "the keys");
  if (!wrong.empty()) return refuse_all(422, wrong);
  keys_ = request.body["keys"].get<std::vector<std::string>>();
  return list_keys(request, {});
}

io::HttpReply RunPod::list_volumes(const Request&, const Names&) {
  Json all = Json::array();
  for (const Volume& one : volumes_) all.push_back(one.body);
  return json_reply(200, {{"networkVolumes", all}});
}

io::HttpReply RunPod::create_volume(const Request& request, const Names&) {
  const Json& body = request.body;
  std::vector<std::string> wrong = misfits(body,
                                           {{"name", Kind::text, true},
                                            {"size", Kind::whole, true},
                                            {"dataCenter", Kind::text, true},
                                            {"type", Kind::text}},
                                           "a network volume");
  if (wrong.empty() && (body["size"] < 10 || body["size"] > 4096)) {
    wrong.emplace_back("a network volume has 10 to 4096 GB");
  }
  if (!wrong.empty()) return refuse_all(422, wrong);
  const PodPlace* place = find_pod_place(body["dataCenter"].get<std::string>());
  if (place == nullptr || !place->volumes) return refusal(400, "no network volumes there");
  Volume& made = volumes_.emplace_back(Volume{dice().hex(10), body, now()});
  made.body["id"] = made.id;
  made.body["type"] = body.value("type", "STANDARD");
  return json_reply(201, made.body);
}

io::HttpReply RunPod::get_volume(const Request&, const Names& names) {
  for (const Volume& one : volumes_) {
    if (one.id == names[0]) return json_reply(200, one.body);
  }
  return refusal(404, "network volume not found");
}

io::HttpReply RunPod::delete_volume(const Request&, const Names& names) {
  if (std::erase_if(volumes_, [&](const Volume& one) { return one.id == names[0]; }) == 0) {
    return refusal(404, "network volume not found");
  }
  return {.status = 204};
}

io::HttpReply RunPod::list_registries(const Request&, const Names&) {
  return json_reply(200, {{"registries", {{{"id", "reg_private"}, {"name", "private"}}}}});
}

}  // namespace skyward::doubles
