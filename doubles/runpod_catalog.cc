// What is on sale at RunPod, by REST.

#include <algorithm>
#include <bit>

#include "doubles/runpod.h"

namespace skyward::doubles {
namespace {

constexpr int kEnough = 16;  // pods of a kind in a place, where no dial says otherwise

std::string said(const Request& request, const char* name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

}  // namespace

int RunPod::stock(const std::string& gpu, const std::string& place) const {
  return std::min(room(gpu, place), kEnough);
}

std::string RunPod::level(int stock) const {
  if (stock == 0) return "NONE";
  if (stock < 4) return "LOW";
  return stock < kEnough ? "MEDIUM" : "HIGH";
}

std::vector<std::string> RunPod::wrong_catalog(const Request& request, bool gpus) const {
  std::vector<std::string> wrong;
  const std::string include = said(request, "include"), product = said(request, "product");
  if (!include.empty() && include != "AVAILABILITY") wrong.push_back("no include " + include);
  const bool available = !include.empty();
  if (available && product.empty()) wrong.emplace_back("availability without a product");
  if (!product.empty() && product != "POD" && product != "SERVERLESS" &&
      !(gpus && product == "CLUSTER")) {
    wrong.push_back("no product " + product);
  }
  for (const auto& [name, value] : request.query) {
    if (name != "include" && !available) {
      wrong.push_back(name + " without include=AVAILABILITY");
    }
  }
  const std::string cloud = said(request, "cloud"), count = said(request, "count");
  if (!cloud.empty() && cloud != "SECURE" && cloud != "COMMUNITY") {
    wrong.push_back("no cloud " + cloud);
  }
  const std::string least = said(request, "minCudaVersion");
  if (!least.empty() && !whole(least) && !is_cuda_version(least)) {
    wrong.push_back("a minCudaVersion of " + least);
  }
  if (!count.empty() && whole(count).value_or(0) < 1) wrong.push_back("a count of " + count);
  const std::string vcpus = said(request, "vcpuCount");
  const long long many = whole(vcpus).value_or(0);
  if (!vcpus.empty() && (many < 2 || !std::has_single_bit(static_cast<unsigned>(many)))) {
    wrong.push_back("a vcpuCount of " + vcpus);
  }
  return wrong;
}

Json RunPod::gpu_json(const PodGpu& gpu, const Request& request) const {
  Json out{{"id", gpu.id},
           {"name", gpu.name},
           {"pool", nullptr},
           {"manufacturer", gpu.manufacturer},
           {"memory", gpu.memory_gb},
           {"secure", gpu.secure > 0},
           {"community", gpu.community > 0},
           {"price", {{"secure", gpu.secure}, {"community", gpu.community}}},
           {"maxCount", {{"secure", gpu.most_secure}, {"community", gpu.most_community}}}};
  if (said(request, "include").empty()) return out;
  const bool community = said(request, "cloud") == "COMMUNITY";
  const auto count = whole(said(request, "count")).value_or(1);
  const std::string id(gpu.id);
  const std::string least = said(request, "minCudaVersion");
  Json versions = Json::array();
  for (const std::string_view one : cuda_versions()) {
    const bool fits = least.empty() || cuda_number(one) >= cuda_number(least);
    if (fits && gpu.manufacturer == "NVIDIA") versions.push_back(one);
  }
  int most = 0;
  Json places = Json::array();
  const bool driven = least.empty() || !versions.empty();
  if (driven && count <= (community ? gpu.most_community : gpu.most_secure)) {
    if (community) most = stock(id, "COMMUNITY");
    for (const std::string_view place : gpu.places) {
      if (community) break;
      const int left = stock(id, std::string(place));
      most = std::max(most, left);
      if (left == 0) continue;
      places.push_back(
          {{"id", place}, {"name", find_pod_place(place)->name}, {"availability", level(left)}});
    }
  }
  out["availability"] = level(most);
  if (!places.empty()) out["dataCenters"] = places;
  for (const Json& one : versions) {
    out["cudaVersions"].push_back({{"version", one}, {"available", most > 0}});
  }
  return out;
}

io::HttpReply RunPod::list_gpus(const Request& request, const Names&) {
  const std::vector<std::string> wrong = wrong_catalog(request, true);
  if (!wrong.empty()) return refuse_all(400, wrong);
  Json all = Json::array();
  for (const PodGpu& one : pod_gpus()) all.push_back(gpu_json(one, request));
  return json_reply(200, {{"gpus", all}});
}

Json RunPod::cpu_json(const PodCpu& cpu, const Request& request) const {
  Json out{{"id", cpu.id},
           {"name", cpu.name},
           {"group", cpu.group},
           {"vcpu", {{"min", 2}, {"max", cpu.most_vcpus}}},
           {"ramGbPerVcpu", cpu.ram_gb},
           {"price", {{"securePerVcpu", cpu.price}, {"serverlessPerVcpu", cpu.price}}}};
  if (said(request, "include").empty()) return out;
  int most = 0;
  Json places = Json::array();
  for (const PodPlace& place : pod_places()) {
    const int left = stock(std::string(cpu.id), std::string(place.id));
    most = std::max(most, left);
    if (left == 0) continue;
    places.push_back({{"id", place.id}, {"name", place.name}, {"availability", level(left)}});
  }
  out["availability"] = level(most);
  if (!places.empty()) out["dataCenters"] = places;
  return out;
}

io::HttpReply RunPod::list_cpus(const Request& request, const Names&) {
  const std::vector<std::string> wrong = wrong_catalog(request, false);
  if (!wrong.empty()) return refuse_all(400, wrong);
  Json all = Json::array();
  for (const PodCpu& one : pod_cpus()) all.push_back(cpu_json(one, request));
  return json_reply(200, {{"cpus", all}});
}

io::HttpReply RunPod::list_places(const Request& request, const Names&) {
  Json all = Json::array();
  const std::string regions = "," + said(request, "regions") + ",";
  for (const PodPlace& one : pod_places()) {
    if (regions != ",," && !regions.contains("," + std::string(one.region) + ",")) continue;
    const std::string network = said(request, "globalNetwork");
    if (!network.empty() && (network == "true") != one.network) continue;
    all.push_back({{"id", one.id},
                   {"name", one.name},
                   {"region", one.region},
                   {"globalNetwork", one.network},
                   {"networkVolumeTypes", one.volumes ? Json{"STANDARD"} : Json::array()},
                   {"compliance", {"SOC_2_TYPE_2"}}});
  }
  return json_reply(200, {{"dataCenters", all}});
}

}  // namespace skyward::doubles
