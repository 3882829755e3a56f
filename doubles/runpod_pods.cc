// RunPod's pods, by REST.

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "doubles/runpod.h"

namespace skyward::doubles {
namespace {

constexpr int kLongestArgs = 32'768;
constexpr int kLeastPersistent_gb = 10;
constexpr int kMostCpuDisk_gb = 20;
constexpr long long kPodsPage = 100;
constexpr long long kMostPods = 1000;

bool names_a_port(const Json& port) {
  if (!port.is_string()) return false;
  const std::string text = port;
  return text.ends_with("/tcp") || text.ends_with("/http");
}

}  // namespace

std::string RunPod::status_of(const Machine& one) const {
  if (one.ended <= now()) return "TERMINATED";
  if (one.has_failed(now())) return "ERROR";
  if (one.off <= now()) return "EXITED";
  if (!one.is_new(now())) return "RUNNING";
  return now() < one.made + dials.boot / 2 ? "PROVISIONING" : "STARTING";
}

// By its port 22, which has a number of its own at its host.
bool RunPod::is_reached(const Machine& one) const {
  const Json ports = one.request.value("ports", Json::array());
  return status_of(one) == "RUNNING" && now() >= one.ready + dials.address_lag &&
         !one.public_address.empty() && std::ranges::find(ports, "22/tcp") != ports.end();
}

Json RunPod::pod_json(const Machine& one) {
  const Lease& lease = leases_.at(one.id);
  const std::string status = status_of(one);
  static const std::map<std::string, Json>& actions =
      *new std::map<std::string, Json>{{"PROVISIONING", {"stop", "terminate"}},
                                       {"STARTING", {"stop", "terminate"}},
                                       {"RUNNING", {"stop", "restart", "terminate"}},
                                       {"EXITED", {"start", "terminate"}},
                                       {"ERROR", {"start", "terminate"}},
                                       {"TERMINATED", Json::array()}};
  Json direct = nullptr, ports = Json::array();
  if (is_reached(one)) {
    direct = {
        {"host", one.public_address},
        {"port", one.ssh_port},
        {"username", "root"},
        {"command", "ssh root@" + one.public_address + " -p " + std::to_string(one.ssh_port)}};
    ports.push_back(
        {{"private", 22}, {"public", one.ssh_port}, {"type", "tcp"}, {"ip", one.public_address}});
  }
  const std::string login = one.id + "-64410000";
  const Json proxy{{"host", "ssh.runpod.io"},
                   {"port", 22},
                   {"username", login},
                   {"command", "ssh " + login + "@ssh.runpod.io"}};
  const bool started = status == "RUNNING" || status == "EXITED";
  const bool costs = status != "EXITED" && status != "TERMINATED";
  const bool placed = status != "PROVISIONING" && lease.cloud == "SECURE";
  Json out{{"id", one.id},
           {"name", one.name},
           {"status", status},
           {"actions", actions.at(status)},
           {"image", one.request["image"]},
           {"args", one.request.value("args", "")},
           {"disk", one.request.value("disk", 20)},
           {"mounts", one.request.value("mounts", Json::object())},
           {"ports", one.request.value("ports", Json::array())},
           {"env", lease.env},
           {"registry", one.request.value("registry", Json())},
           {"cloud", lease.cloud},
           {"dataCenterId", placed ? Json(one.place) : Json()},
           {"cudaVersion", !lease.cuda.empty() && started ? Json(lease.cuda) : Json()},
           {"ssh", {{"proxy", status == "PROVISIONING" ? Json() : proxy}, {"direct", direct}}},
           {"template", nullptr},
           {"cost", costs ? one.hourly : 0.0},
           {"locked", false},
           {"globalNetworking", {{"enabled", lease.networked}}},
           {"runtime", nullptr},
           {"createdAt", wall_text(one.made)},
           {"startedAt", started ? Json(wall_text(one.ready)) : Json()}};
  if (lease.networked && now() >= one.made + dials.network_lag) {
    out["globalNetworking"]["ip"] = one.private_address;
    out["globalNetworking"]["internalDns"] = one.id + ".runpod.internal";
  }
  if (status == "RUNNING") {
    const auto up = std::chrono::duration_cast<std::chrono::seconds>(now() - one.ready).count();
    out["runtime"] = {{"uptime", up}, {"ports", ports}};
  }
  if (lease.gpu != nullptr) out["gpu"] = {{"id", lease.gpu->id}, {"count", lease.count}};
  if (lease.cpu != nullptr) {
    out["cpu"] = {{"id", lease.cpu->id},
                  {"vcpuCount", lease.count},
                  {"memory", static_cast<int>(lease.count * lease.cpu->ram_gb)}};
  }
  return out;
}

// What the form alone says, which is status 422.
std::vector<std::string> RunPod::wrong_form(const Json& body) const {
  std::vector<std::string> wrong = misfits(body,
                                           {{"name", Kind::text, true},
                                            {"image", Kind::text, true},
                                            {"args", Kind::text},
                                            {"disk", Kind::whole},
                                            {"env", Kind::object},
                                            {"ports", Kind::list},
                                            {"registry", Kind::any},
                                            {"cloud", Kind::text},
                                            {"cpu", Kind::object},
                                            {"gpu", Kind::object},
                                            {"dataCenterIds", Kind::list},
                                            {"globalNetworking", Kind::flag},
                                            {"mounts", Kind::object},
                                            {"startSsh", Kind::flag}},
                                           "a pod");
  const auto check = [&](const char* part, const Json& value, Fields fields) {
    for (std::string& one : misfits(value, fields, part)) wrong.push_back(std::move(one));
  };
  if (!wrong.empty()) return wrong;
  if (body.contains("gpu")) {
    check("gpu", body["gpu"],
          {{"id", Kind::text, true},
           {"count", Kind::whole},
           {"allowedCudaVersions", Kind::list},
           {"minCudaVersion", Kind::text}});
    Json versions = body["gpu"].value("allowedCudaVersions", Json::array());
    if (body["gpu"].contains("minCudaVersion")) versions.push_back(body["gpu"]["minCudaVersion"]);
    for (const Json& one : versions) {
      const bool good = one.is_string() && is_cuda_version(one.get<std::string>());
      if (!good) wrong.push_back("no version of CUDA is " + one.dump());
    }
  }
  if (body.contains("cpu")) {
    check("cpu", body["cpu"], {{"id", Kind::text, true}, {"vcpuCount", Kind::whole, true}});
  }
  const Json mounts = body.value("mounts", Json::object());
  check("mounts", mounts, {{"persistent", Kind::object}, {"network", Kind::list}});
  if (!wrong.empty()) return wrong;
  if (mounts.contains("persistent")) {
    check("mounts.persistent", mounts["persistent"],
          {{"size", Kind::whole, true}, {"path", Kind::text, true}});
    if (wrong.empty() && mounts["persistent"]["size"] < kLeastPersistent_gb) {
      wrong.emplace_back("a persistent mount below 10 GB");
    }
  }
  for (const Json& one : mounts.value("network", Json::array())) {
    check("mounts.network", one, {{"volumeId", Kind::text, true}, {"path", Kind::text, true}});
  }
  for (const Json& port : body.value("ports", Json::array())) {
    if (!names_a_port(port)) wrong.push_back("no port is " + port.dump());
  }
  const Json env = body.value("env", Json::object());
  for (const auto& [name, value] : env.items()) {
    if (!value.is_string()) wrong.push_back("the variable " + name + " is no text");
  }
  const std::string cloud = body.value("cloud", "SECURE");
  if (cloud != "SECURE" && cloud != "COMMUNITY") wrong.push_back("no cloud " + cloud);
  if (body.value("args", "").size() > kLongestArgs) wrong.emplace_back("args that are too long");
  if (body.value("disk", 1) < 1) wrong.emplace_back("a disk below 1 GB");
  return wrong;
}

// What its parts say together, which is status 400. Empty: nothing is broken.
std::string RunPod::broken_rule(const Json& body) const {
  if (body.contains("gpu") == body.contains("cpu")) return "exactly one of gpu or cpu must be set";
  const Json mounts = body.value("mounts", Json::object());
  const bool persistent = mounts.contains("persistent"), network = mounts.contains("network");
  if (persistent && network) return "mounts.persistent and mounts.network are mutually exclusive";
  if (body.contains("cpu")) {
    const PodCpu* cpu = find_pod_cpu(body["cpu"]["id"].get<std::string>());
    const int count = body["cpu"]["vcpuCount"];
    if (cpu == nullptr) return "unknown CPU flavor";
    if (count < 2 || count > cpu->most_vcpus || !std::has_single_bit(unsigned(count))) {
      return "vcpuCount is not valid for this flavor";
    }
    if (persistent) return "mounts.persistent is invalid when cpu is set";
    if (body.value("disk", 10) > kMostCpuDisk_gb) return "the disk is too large for a CPU pod";
    if (body.value("cloud", "SECURE") != "SECURE") return "CPU pods are on the secure cloud";
    if (body.value("globalNetworking", false)) return "global networking needs an NVIDIA GPU";
    return "";
  }
  const Json& asked = body["gpu"];
  const PodGpu* gpu = find_pod_gpu(asked["id"].get<std::string>());
  if (gpu == nullptr) return "unknown GPU type";
  const bool networked = body.value("globalNetworking", false);
  if (networked && gpu->manufacturer != "NVIDIA") return "global networking needs an NVIDIA GPU";
  if (asked.contains("minCudaVersion") && !asked.value("allowedCudaVersions", Json()).empty()) {
    return "allowedCudaVersions and minCudaVersion are mutually exclusive";
  }
  return "";
}

std::string RunPod::find_place(const Wish& wish) const {
  const Lease& lease = wish.lease;
  const std::string size(lease.gpu != nullptr ? lease.gpu->id : lease.cpu->id);
  const Json asked = wish.body.value("dataCenterIds", Json::array());
  if (lease.cloud == "COMMUNITY") {
    const bool fits = lease.gpu->community > 0 && lease.count <= lease.gpu->most_community;
    return fits && asked.empty() && stock(size, "COMMUNITY") > 0 ? "COMMUNITY" : "";
  }
  if (lease.gpu != nullptr && lease.count > lease.gpu->most_secure) return "";
  for (const PodPlace& place : pod_places()) {
    const bool sold = lease.gpu == nullptr ||
                      std::ranges::find(lease.gpu->places, place.id) != lease.gpu->places.end();
    const bool wanted = asked.empty() || std::ranges::find(asked, Json(place.id)) != asked.end();
    if (!sold || !wanted || (lease.networked && !place.network)) continue;
    if (stock(size, std::string(place.id)) > 0) return std::string(place.id);
  }
  return "";
}

std::string RunPod::find_driver(const Wish& wish) {
  const Json& asked = wish.body["gpu"];
  const Json allowed = asked.value("allowedCudaVersions", Json::array());
  const double least = cuda_number(asked.value("minCudaVersion", "0"));
  for (const std::string_view one : cuda_versions()) {
    const bool named = allowed.empty() || std::ranges::find(allowed, Json(one)) != allowed.end();
    if (named && cuda_number(one) >= least) return std::string(one);
  }
  return "";
}

std::expected<Machine*, RunPod::Refused> RunPod::make_pod(Wish wish) {
  Lease& lease = wish.lease;
  if (wish.body.contains("gpu")) {
    lease.gpu = find_pod_gpu(wish.body["gpu"]["id"].get<std::string>());
    lease.count = wish.body["gpu"].value("count", 1);
  } else {
    lease.cpu = find_pod_cpu(wish.body["cpu"]["id"].get<std::string>());
    lease.count = wish.body["cpu"]["vcpuCount"];
  }
  lease.cloud = wish.body.value("cloud", "SECURE");
  lease.networked = wish.body.value("globalNetworking", false);
  if (std::stod(dials.balance) <= invoice(asked_at()))
    return std::unexpected(Refused{402, "Insufficient balance."});
  const std::string place = find_place(wish);
  const bool driven = lease.gpu != nullptr && lease.gpu->manufacturer == "NVIDIA";
  if (driven) lease.cuda = find_driver(wish);
  if (place.empty() || (driven && lease.cuda.empty())) {
    return std::unexpected(Refused{
        400, "There are no instances currently available with the requested specifications."});
  }
  const double each = lease.cpu != nullptr      ? lease.cpu->price
                      : lease.cloud == "SECURE" ? lease.gpu->secure
                                                : lease.gpu->community;
  lease.market = each * least_bid_ * lease.count;
  const double price = wish.bid ? wish.price : each * lease.count;
  if (wish.bid && price < lease.market) {
    return std::unexpected(Refused{400, "The bid is below the minimum bid price."});
  }
  Machine& made =
      make_machine({.id = dice().hex(14),
                    .name = wish.body["name"],
                    .size = std::string(lease.gpu != nullptr ? lease.gpu->id : lease.cpu->id),
                    .place = place,
                    .hourly = price,
                    .spot = wish.bid,
                    .request = wish.body},
                   false);
  lease.key = "rpa_" + dice().hex(40);
  lease.env = wish.body.value("env", Json::object());
  made.inside = {{"RUNPOD_POD_ID", made.id}, {"RUNPOD_API_KEY", lease.key}};
  made.ssh_port = 10000 + static_cast<int>(dice().next() % 50000);
  leases_[made.id] = lease;
  return &made;
}

io::HttpReply RunPod::create_pod(const Request& request, const Names&) {
  const std::vector<std::string> wrong = wrong_form(request.body);
  if (!wrong.empty()) return refuse_all(422, wrong);
  const std::string rule = broken_rule(request.body);
  if (!rule.empty()) return refuse_all(400, {rule});
  for (const Json& one :
       request.body.value("mounts", Json::object()).value("network", Json::array())) {
    const auto volume = std::ranges::find(volumes_, one["volumeId"].get<std::string>(),
                                          [](const Volume& each) { return each.id; });
    const Json places = request.body.value("dataCenterIds", Json::array());
    if (volume == volumes_.end()) return refusal(404, "network volume not found");
    if (request.body.value("cloud", "SECURE") != "SECURE") {
      return refusal(400, "network volumes are on the secure cloud");
    }
    if (places != Json::array({volume->body["dataCenter"]})) {
      return refusal(400, "the network volume is in another data center");
    }
  }
  Wish wish;
  wish.body = request.body;
  const auto made = make_pod(std::move(wish));
  if (!made) return refusal(made.error().status, made.error().what);
  return json_reply(201, pod_json(**made));
}

// The newest first, in pages that are shorter than they may be. A cursor is the last pod's id.
io::HttpReply RunPod::list_pods(const Request& request, const Names&) {
  const auto limit = request.query.find("limit");
  const auto cursor = request.query.find("cursor");
  long long most = kPodsPage;
  if (limit != request.query.end()) most = whole(limit->second).value_or(0);
  if (most < 1 || most > kMostPods) return refuse_all(422, {"a page has 1 to 1000 pods"});
  bool begun = cursor == request.query.end();
  std::set<const Machine*> listed;
  for (const Machine* one : listed_machines()) listed.insert(one);
  Json page = Json::array(), next = nullptr;
  for (auto one = machines.rbegin(); one != machines.rend(); ++one) {
    if (begun && listed.contains(&*one)) {
      if (std::cmp_equal(page.size(), std::min(most, kPodsPage))) {
        next = page.back()["id"];
        break;
      }
      page.push_back(pod_json(*one));
    }
    begun = begun || one->id == cursor->second;
  }
  if (!begun) return refuse_all(422, {"an invalid cursor"});
  return json_reply(
      200,
      {{"pods", page}, {"pagination", {{"hasNextPage", !next.is_null()}, {"nextCursor", next}}}});
}

// A deleted pod is reported as TERMINATED, or is unknown.
io::HttpReply RunPod::get_pod(const Request&, const Names& names) {
  const Machine* one = find_machine(names[0]);
  if (one == nullptr && names[0].back() % 2 == 0) {
    const auto ended = std::ranges::find_if(machines, [&](const Machine& each) {
      return each.id == names[0] && is_ours(each) && each.ended <= now();
    });
    if (ended != machines.end()) one = &*ended;
  }
  return one == nullptr ? refusal(404, "pod not found") : json_reply(200, pod_json(*one));
}

io::HttpReply RunPod::delete_pod(const Request&, const Names& names) {
  Machine* one = find_machine(names[0]);
  if (one == nullptr) return refusal(404, "pod not found");
  end_machine(*one);
  return {.status = 204};
}

// A pod that starts again has another port.
void RunPod::start(Machine& one) {
  one.resume(now());
  one.ready = now() + dials.boot;
  one.ssh_port = 10000 + static_cast<int>(dice().next() % 50000);
}

io::HttpReply RunPod::act(const Request& request, const Names& names) {
  std::vector<std::string> wrong = misfits(request.body, {{"action", Kind::text, true}}, "an act");
  static constexpr std::string_view kActs[] = {"start", "stop", "restart", "terminate"};
  const std::string what = wrong.empty() ? request.body["action"] : "";
  if (wrong.empty() && std::ranges::find(kActs, what) == std::end(kActs)) {
    wrong.push_back("there is no action " + what);
  }
  if (!wrong.empty()) return refuse_all(422, wrong);
  Machine* one = find_machine(names[0]);
  if (one == nullptr) return refusal(404, "pod not found");
  const Json allowed = pod_json(*one)["actions"];
  if (std::ranges::find(allowed, Json(what)) == allowed.end()) {
    return refusal(409, "cannot " + what + " a pod that is " + status_of(*one));
  }
  if (what == "terminate") return delete_pod(request, names);
  what == "stop" ? one->stop(now()) : start(*one);
  return json_reply(200, pod_json(*one));
}

}  // namespace skyward::doubles
