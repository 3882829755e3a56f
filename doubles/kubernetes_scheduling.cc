// Where the double's pods run.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "doubles/kubernetes.h"
#include "doubles/kubernetes_facts.h"

namespace skyward::doubles {
namespace {

bool tolerates(const Json& pod, const Json& taint) {
  for (const Json& one : pod.value("/spec/tolerations"_json_pointer, Json::array())) {
    const std::string key = one.value("key", ""), effect = one.value("effect", "");
    const bool exists = one.value("operator", "Equal") == "Exists";
    if (!key.empty() && key != taint.value("key", "")) continue;
    if (!effect.empty() && effect != taint.value("effect", "")) continue;
    if (exists || one.value("value", "") == taint.value("value", "")) return true;
  }
  return false;
}

}  // namespace

std::optional<double> read_quantity(const Json& quantity) {
  if (quantity.is_number()) return quantity.get<double>();
  if (!quantity.is_string()) return std::nullopt;
  const std::string text = quantity;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return std::nullopt;
  static const std::map<std::string, double>& units = *new std::map<std::string, double>{
      {"", 1},     {"m", 1e-3},    {"k", 1e3},     {"M", 1e6},     {"G", 1e9},
      {"T", 1e12}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
  const auto unit = units.find(end);
  return unit == units.end() ? std::nullopt : std::optional(number * unit->second);
}

Resources requests_of(const Json& pod) {
  Resources out{{"pods", 1}};
  for (const Json& one : pod.value("/spec/containers"_json_pointer, Json::array())) {
    Json wanted = one.value("/resources/limits"_json_pointer, Json::object());
    wanted.update(one.value("/resources/requests"_json_pointer, Json::object()));
    for (const auto& [name, quantity] : wanted.items()) {
      out[name] += read_quantity(quantity).value_or(0);
    }
  }
  return out;
}

bool Kubernetes::is_over(const Machine& one) const {
  return one.has_failed(now()) || one.off <= now();
}

std::map<std::string, double> Kubernetes::free_on(const std::string& node) const {
  Resources out;
  const Json given = nodes.at(node).value("/status/allocatable"_json_pointer, Json::object());
  for (const auto& [name, quantity] : given.items()) {
    out[name] = read_quantity(quantity).value_or(0);
  }
  for (const Machine& one : machines) {
    const PodState& state = pods_.at(one.id);
    if (state.node != node || !one.is_there(now()) || is_over(one)) continue;
    for (const auto& [name, count] : requests_of(one.request)) out[name] -= count;
  }
  return out;
}

std::string Kubernetes::why_not(const Json& pod, const Json& node) const {
  if (node.value("/spec/unschedulable"_json_pointer, false)) return "node(s) were unschedulable";
  for (const Json& taint : node.value("/spec/taints"_json_pointer, Json::array())) {
    if (taint.value("effect", "") == "PreferNoSchedule" || tolerates(pod, taint)) continue;
    return "node(s) had untolerated taint {" + taint.value("key", "") + ": " +
           taint.value("value", "") + "}";
  }
  const Json labels = node.value("/metadata/labels"_json_pointer, Json::object());
  const Json selector = pod.value("/spec/nodeSelector"_json_pointer, Json::object());
  for (const auto& [name, value] : selector.items()) {
    if (labels.value(name, Json()) != value) {
      return "node(s) didn't match Pod's node affinity/selector";
    }
  }
  const Resources free = free_on(node.at("/metadata/name"_json_pointer));
  for (const auto& [name, count] : requests_of(pod)) {
    const auto there = free.find(name);
    if (count > (there == free.end() ? 0 : there->second)) {
      return name == "pods" ? "Too many pods" : "Insufficient " + name;
    }
  }
  return {};
}

// Every pod that has no node gets the first that it fits, the oldest first.
void Kubernetes::schedule() {
  for (Machine& one : machines) {
    PodState& state = pods_[one.id];
    if (!state.node.empty() || one.ended <= now()) continue;
    std::map<std::string, int> reasons;
    for (const auto& [name, node] : nodes) {
      const std::string why = why_not(one.request, node);
      if (!why.empty()) {
        ++reasons[why];
        continue;
      }
      state.node = name;
      state.scheduled = now();
      const std::string image = one.request.at("/spec/containers/0/image"_json_pointer);
      const Json life = one.request.value("/spec/activeDeadlineSeconds"_json_pointer, Json());
      if (!unpullable.contains(image)) one.ready = now() + dials.boot;
      if (life.is_number() && one.ready != kNever) one.failed = one.ready + from_seconds(life);
      break;
    }
    if (!state.node.empty()) continue;
    // As the scheduler sorts them: as texts, each with its number.
    std::vector<std::string> parts;
    for (const auto& [why, count] : reasons) parts.push_back(std::to_string(count) + " " + why);
    std::ranges::sort(parts);
    state.unfit = "0/" + std::to_string(nodes.size()) + " nodes are available";
    for (std::size_t at = 0; at < parts.size(); ++at) {
      state.unfit += (at == 0 ? ": " : ", ") + parts[at];
    }
    state.unfit += ".";
  }
}

}  // namespace skyward::doubles
