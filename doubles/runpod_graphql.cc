// RunPod by GraphQL: bids, prices of bids, and what its own older client asks.

#include <algorithm>

#include "doubles/runpod.h"

namespace skyward::doubles {
namespace {

// {"key": "A", "value": "1"}, …, as an object.
Json read_env(const Json& pairs) {
  Json out = Json::object();
  for (const Json& one : pairs) out[one["key"].get<std::string>()] = one["value"];
  return out;
}

// More processors or memory than go with so many GPUs.
bool asks_too_much(const Json& asked, int count) {
  const PodGpu* const gpu = find_pod_gpu(asked["gpuTypeId"].get<std::string>());
  return gpu != nullptr && (gpu->vcpus * count < asked.value("minVcpuCount", 0) ||
                            gpu->ram_gb * count < asked.value("minMemoryInGb", 0));
}

io::HttpReply errors_reply(const std::vector<std::string>& messages, const Json& data,
                           const char* code) {
  Json errors = Json::array();
  for (const std::string& one : messages) {
    errors.push_back({{"message", one}, {"extensions", {{"code", code}}}});
  }
  return json_reply(200, {{"errors", errors}, {"data", data}});
}

}  // namespace

io::HttpReply RunPod::graphql(const Request& request, const std::string& key) {
  std::vector<std::string> wrong =
      misfits(request.body,
              {{"query", Kind::text, true}, {"variables", Kind::any}, {"operationName", Kind::any}},
              "GraphQL");
  if (request.method != "POST") wrong.emplace_back("GraphQL without POST");
  if (!wrong.empty()) return refuse_all(400, wrong);
  const Json variables = request.body.value("variables", Json());
  const auto operation = read_operation(request.body["query"].get<std::string>(),
                                        variables.is_null() ? Json::object() : variables);
  if (!operation) return refuse_all(400, {operation.error()});
  Json data = Json::object();
  std::vector<std::string> refused;
  for (const Selection& field : operation->fields) {
    const bool changes = field.name.starts_with("pod") && field.name != "pod";
    if (changes != (operation->kind == "mutation")) {
      wrong.push_back("Cannot query field \"" + field.name + "\" on type " + operation->kind);
      continue;
    }
    const auto value = resolve(field, key);
    data[field.key] = nullptr;
    if (value) {
      data[field.key] = select(*value, field.fields, wrong);
    } else if (value.error().status == 422) {
      wrong.push_back(value.error().what);
    } else {
      refused.push_back(value.error().what);
    }
  }
  for (const std::string& one : wrong) violate(one);
  if (!wrong.empty()) return errors_reply(wrong, nullptr, "GRAPHQL_VALIDATION_FAILED");
  if (!refused.empty()) return errors_reply(refused, data, "RUNPOD");
  return json_reply(200, {{"data", data}});
}

std::expected<Json, RunPod::Refused> RunPod::resolve(const Selection& field,
                                                     const std::string& key) {
  const Json input = field.arguments.value("input", Json::object());
  const std::string pod = input.value("podId", "");
  if (key != api_key && (field.name != "podTerminate" || leases_.at(pod).key != key)) {
    return std::unexpected(Refused{403, "This key may not do that."});
  }
  if (field.name == "myself") return user_json();
  if (field.name == "gpuTypes") {
    Json all = Json::array();
    for (const PodGpu& one : pod_gpus()) {
      const std::string id = input.value("id", "");
      if (id.empty() || id == one.id) all.push_back(old_gpu_json(one, field));
    }
    return all;
  }
  if (field.name == "podFindAndDeployOnDemand") return rent(input, false);
  if (field.name == "podRentInterruptable") return rent(input, true);
  if (field.name == "pod") {
    const Machine* one = find_machine(pod);
    return one == nullptr ? Json() : old_pod_json(*one);
  }
  return change_pod(field.name, input);
}

std::expected<Json, RunPod::Refused> RunPod::change_pod(const std::string& name,
                                                        const Json& input) {
  Machine* one = find_machine(input.value("podId", ""));
  if (one == nullptr) return std::unexpected(Refused{404, "pod not found"});
  if (name == "podTerminate") {
    end_machine(*one);
    return Json();
  }
  if (name == "podStop") {
    one->stop(now());
  } else if (name == "podResume" || name == "podBidResume") {
    start(*one);
  } else {
    return std::unexpected(Refused{422, "Cannot query field \"" + name + "\" on type Mutation"});
  }
  return old_pod_json(*one);
}

// A pod, as REST would have it.
std::expected<Json, RunPod::Refused> RunPod::rent(const Json& input, bool bid) {
  const Json asked = without_nulls(input);
  std::vector<std::string> wrong = misfits(asked,
                                           {{"bidPerGpu", Kind::number, bid},
                                            {"name", Kind::text, true},
                                            {"imageName", Kind::text, true},
                                            {"gpuTypeId", Kind::text, true},
                                            {"gpuCount", Kind::whole},
                                            {"cloudType", Kind::text},
                                            {"containerDiskInGb", Kind::whole},
                                            {"volumeInGb", Kind::whole},
                                            {"volumeMountPath", Kind::text},
                                            {"networkVolumeId", Kind::text},
                                            {"minVcpuCount", Kind::whole},
                                            {"minMemoryInGb", Kind::whole},
                                            {"ports", Kind::text},
                                            {"dockerArgs", Kind::text},
                                            {"env", Kind::list},
                                            {"dataCenterId", Kind::text},
                                            {"allowedCudaVersions", Kind::list},
                                            {"supportPublicIp", Kind::flag},
                                            {"startSsh", Kind::flag},
                                            {"containerRegistryAuthId", Kind::text}},
                                           "a pod by GraphQL");
  if (!wrong.empty()) return std::unexpected(Refused{422, wrong.front()});
  if (!bid && asked.contains("bidPerGpu")) return std::unexpected(Refused{422, "a bid on demand"});
  const int count = asked.value("gpuCount", 1);
  if (asks_too_much(asked, count)) {
    return std::unexpected(Refused{400, "There are no longer any instances available."});
  }
  Wish wish;
  wish.price = asked.value("bidPerGpu", 0.0) * count;
  wish.bid = bid;
  wish.body = {{"name", asked["name"]},
               {"image", asked["imageName"]},
               {"gpu", {{"id", asked["gpuTypeId"]}, {"count", count}}},
               {"args", asked.value("dockerArgs", "")},
               {"disk", asked.value("containerDiskInGb", 10)},
               {"cloud", asked.value("cloudType", "SECURE")},
               {"env", read_env(asked.value("env", Json::array()))},
               {"ports", Json::array()}};
  if (asked.contains("allowedCudaVersions")) {
    wish.body["gpu"]["allowedCudaVersions"] = asked["allowedCudaVersions"];
  }
  std::string port;
  for (const char c : asked.value("ports", "") + ",") {
    if (c != ',') port += c;
    if (c == ',' && !port.empty()) wish.body["ports"].push_back(std::exchange(port, {}));
  }
  if (wish.body["cloud"] == "ALL") wish.body["cloud"] = "SECURE";
  if (asked.value("volumeInGb", 0) > 0) {
    wish.body["mounts"]["persistent"] = {{"size", asked["volumeInGb"]},
                                         {"path", asked.value("volumeMountPath", "/workspace")}};
  }
  if (asked.contains("networkVolumeId")) {
    wish.body["mounts"]["network"] = {
        {{"volumeId", asked["networkVolumeId"]}, {"path", asked.value("volumeMountPath", "")}}};
  }
  if (asked.contains("dataCenterId")) {
    wish.body["dataCenterIds"] = Json::array({asked["dataCenterId"]});
  }
  wrong = wrong_form(wish.body);
  if (wrong.empty()) {
    if (const std::string rule = broken_rule(wish.body); !rule.empty()) wrong.push_back(rule);
  }
  if (!wrong.empty()) return std::unexpected(Refused{422, wrong.front()});
  auto made = make_pod(std::move(wish));
  if (!made) return std::unexpected(made.error());
  return old_pod_json(**made);
}

Json RunPod::user_json() {
  Json pods = Json::array();
  for (const Machine* one : listed_machines()) pods.push_back(old_pod_json(*one));
  Json volumes = Json::array();
  for (const Volume& one : volumes_) {
    volumes.push_back({{"id", one.id},
                       {"name", one.body["name"]},
                       {"size", one.body["size"]},
                       {"dataCenterId", one.body["dataCenter"]}});
  }
  std::string keys;
  for (const std::string& one : keys_) keys += one + "\n";
  return {{"id", "user_" + dials.account},
          {"email", dials.account + "@example.com"},
          {"pubKey", keys},
          {"clientBalance", std::stod(dials.balance) - invoice(asked_at())},
          {"pods", pods},
          {"networkVolumes", volumes}};
}

Json RunPod::old_gpu_json(const PodGpu& gpu, const Selection& field) const {
  const double least = gpu.community > 0 ? std::min(gpu.community, gpu.secure) : gpu.secure;
  Json out{{"id", gpu.id},
           {"displayName", gpu.name},
           {"manufacturer", gpu.manufacturer},
           {"memoryInGb", gpu.memory_gb},
           {"cudaCores", 0},
           {"secureCloud", gpu.secure > 0},
           {"communityCloud", gpu.community > 0},
           {"securePrice", gpu.secure},
           {"communityPrice", gpu.community},
           {"secureSpotPrice", gpu.secure * least_bid_},
           {"communitySpotPrice", gpu.community * least_bid_},
           {"oneWeekPrice", nullptr},
           {"oneMonthPrice", nullptr},
           {"threeMonthPrice", nullptr},
           {"maxGpuCount", std::max(gpu.most_secure, gpu.most_community)},
           {"maxGpuCountSecureCloud", gpu.most_secure},
           {"maxGpuCountCommunityCloud", gpu.most_community}};
  for (const Selection& part : field.fields) {
    if (part.name != "lowestPrice") continue;
    const Json input = part.arguments.value("input", Json::object());
    const int count = input.value("gpuCount", 1);
    const Json secure = input.value("secureCloud", Json());
    const double price = secure.is_null() ? least : secure == true ? gpu.secure : gpu.community;
    const int most = secure == false ? gpu.most_community : gpu.most_secure;
    const bool sold = price > 0 && count <= most;
    out["lowestPrice"] = {{"minimumBidPrice", sold ? Json(price * least_bid_) : Json()},
                          {"uninterruptablePrice", sold ? Json(price) : Json()},
                          {"minVcpu", sold ? Json(gpu.vcpus * count) : Json()},
                          {"minMemory", sold ? Json(gpu.ram_gb * count) : Json()},
                          {"stockStatus", sold ? Json("High") : Json()}};
  }
  return out;
}

Json RunPod::old_pod_json(const Machine& one) {
  const Json pod = pod_json(one);
  const std::string status = pod["status"];
  Json env = Json::array(), ports = Json::array();
  for (const auto& [name, value] : pod["env"].items()) {
    env.push_back(name + "=" + value.get<std::string>());
  }
  if (is_reached(one)) {
    ports.push_back({{"ip", one.public_address},
                     {"isIpPublic", true},
                     {"privatePort", 22},
                     {"publicPort", one.ssh_port},
                     {"type", "tcp"}});
  }
  std::string opened;
  for (const Json& port : pod["ports"]) {
    if (!opened.empty()) opened += ',';
    opened += port.get<std::string>();
  }
  const Lease& lease = leases_.at(one.id);
  const bool running = status == "RUNNING";
  // What is wished, which is not what is.
  const char* wished = status == "TERMINATED" ? "TERMINATED"
                       : one.off <= now()     ? "EXITED"
                                              : "RUNNING";
  return {{"id", one.id},
          {"name", one.name},
          {"desiredStatus", wished},
          {"imageName", pod["image"]},
          {"dockerArgs", pod["args"]},
          {"dockerId", nullptr},
          {"env", env},
          {"port", nullptr},
          {"ports", opened},
          {"containerDiskInGb", pod["disk"]},
          {"volumeInGb",
           pod["mounts"].contains("persistent") ? pod["mounts"]["persistent"]["size"] : Json(0)},
          {"volumeMountPath", "/workspace"},
          {"costPerHr", one.hourly},
          {"gpuCount", lease.count},
          {"vcpuCount", lease.gpu != nullptr ? lease.gpu->vcpus * lease.count : lease.count},
          {"memoryInGb", lease.gpu != nullptr ? lease.gpu->ram_gb * lease.count : 8},
          {"machineId", "m" + one.id},
          {"podType", one.spot ? "INTERRUPTABLE" : "RESERVED"},
          {"lastStatusChange", nullptr},
          {"uptimeSeconds", 0},
          {"runtime", running ? Json{{"ports", ports}} : Json()},
          {"machine",
           {{"gpuDisplayName", lease.gpu != nullptr ? lease.gpu->name : ""},
            {"podHostId", one.id + "-64410000"}}}};
}

}  // namespace skyward::doubles
