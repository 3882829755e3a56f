#include "skyward/provider/kubernetes/kubernetes_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "skyward/base/text.h"
#include "skyward/base/utc.h"
#include "skyward/provider/json_read.h"
#include "skyward/provider/kubernetes/manifest.h"

namespace skyward::provider::kubernetes {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// An authentication plugin may have to log in first.
constexpr Duration kLongestCommand = 60s;
// Of one request; kubectl then says so itself.
constexpr Duration kLongestRequest = 30s;
constexpr Duration kSoonRefused = 5s;

std::map<std::string, std::string> texts_at(const json& value, std::string_view path) {
  std::map<std::string, std::string> out;
  const json& found = json_at(value, path);
  if (!found.is_object()) return out;
  for (const auto& [name, text] : found.items()) {
    if (text.is_string()) out[name] = text.get<std::string>();
  }
  return out;
}

void add_quantities(const json& object, Quantities& out) {
  if (!object.is_object()) return;
  for (const auto& [name, value] : object.items()) {
    const auto read =
        value.is_string() ? read_quantity(value.get_ref<const std::string&>()) : json_number(value);
    if (read) out[name] += *read;
  }
}

Reason reason_at(const json& value) {
  return {.code = json_text(value, "reason"), .message = json_text(value, "message")};
}

void read_container(const json& status, Pod& out) {
  const json& state = json_at(status, "state");
  out.runs = json_at(state, "running").is_object();
  if (const json& waiting = json_at(state, "waiting"); waiting.is_object()) {
    out.waiting = reason_at(waiting);
  }
  const json& over = json_at(state, "terminated");
  if (!over.is_object() || out.ended) return;
  out.ended = reason_at(over);
  if (const auto code = json_whole(over, "exitCode")) {
    if (out.ended->message.empty()) out.ended->message = fmt::format("exit code {}", *code);
  }
}

Pod read_pod(const json& pod) {
  Pod out{.name = json_text(pod, "metadata/name"),
          .node = json_text(pod, "spec/nodeName"),
          .phase = json_text(pod, "status/phase"),
          .ip = json_text(pod, "status/podIP")};
  if (const std::string at = json_text(pod, "metadata/deletionTimestamp"); !at.empty()) {
    out.deleted_s = parse_moment(at).value_or(0);
  }
  for (const json* one : json_items(pod, "status/conditions")) {
    const std::string type = json_text(*one, "type");
    const std::string status = json_text(*one, "status");
    if (type == "PodScheduled" && status == "False") out.unscheduled = reason_at(*one);
    if (type == "DisruptionTarget" && status == "True") out.disrupted = reason_at(*one);
  }
  if (out.phase == "Failed" || out.phase == "Succeeded") {
    const Reason why = reason_at(json_at(pod, "status"));
    if (!why.code.empty()) out.ended = why;
  }
  // A webhook may have added others, and the kubelet sorts them by name.
  for (const json* one : json_items(pod, "status/containerStatuses")) {
    if (json_text(*one, "name") == kContainer) read_container(*one, out);
  }
  return out;
}

ClusterNode read_node(const json& node) {
  ClusterNode out{.name = json_text(node, "metadata/name"),
                  .labels = texts_at(node, "metadata/labels")};
  for (const json* one : json_items(node, "spec/taints")) {
    out.taints.push_back({.key = json_text(*one, "key"),
                          .value = json_text(*one, "value"),
                          .effect = json_text(*one, "effect")});
  }
  add_quantities(json_at(node, "status/allocatable"), out.allocatable);
  bool ready = false;
  for (const json* one : json_items(node, "status/conditions")) {
    if (json_text(*one, "type") == "Ready") ready = json_text(*one, "status") == "True";
  }
  out.takes_pods = ready && json_at(node, "spec/unschedulable") != true;
  return out;
}

// The names in lines such as "pod/NAME".
Words names_in(std::string_view out) {
  constexpr std::string_view kPod = "pod/";
  Words names;
  for (std::size_t begin = 0; begin < out.size();) {
    const std::size_t end = std::min(out.find('\n', begin), out.size());
    const std::string_view line = trimmed(out.substr(begin, end - begin));
    begin = end + 1;
    if (line.starts_with(kPod)) names.emplace_back(line.substr(kPod.size()));
  }
  return names;
}

// The pod that was refused for this reason alone: '(NotFound): pods "NAME" not found'.
std::string refused_in(std::string_view line, std::string_view reason) {
  if (!line.contains(reason)) return {};
  const std::size_t begin = line.find("pods \"");
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + 6);
  return std::string(line.substr(0, line.find('"')));
}

bool has_failed(const io::CommandResult& ran) {
  return ran.status.signal != 0 || ran.status.code != 0;
}

// A line for each review: "create pods/exec true".
constexpr const char* kReviewOutput =
    "--output=jsonpath={.spec.resourceAttributes.verb} {.spec.resourceAttributes.resource}/"
    "{.spec.resourceAttributes.subresource} {.status.allowed}{\"\\n\"}";

// A line for each pod: its node, a tab, and the requests of its containers.
constexpr const char* kUsageOutput =
    "--output=jsonpath={range .items[*]}{.spec.nodeName}{\"\\t\"}"
    "{.spec.containers[*].resources.requests}{\"\\n\"}{end}";

std::string review_line(const Right& right, bool may) {
  return fmt::format("{} {}/{} {}\n", right.verb, right.resource, right.subresource, may);
}

json review_of(const Right& right, const std::string& name_space) {
  json asked{{"verb", right.verb}, {"resource", right.resource}, {"namespace", name_space}};
  if (!right.subresource.empty()) asked["subresource"] = right.subresource;
  return {{"apiVersion", "authorization.k8s.io/v1"},
          {"kind", "SelfSubjectAccessReview"},
          {"spec", {{"resourceAttributes", std::move(asked)}}}};
}

}  // namespace

// ---- Pure

std::optional<double> read_quantity(std::string_view text) {
  double number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto read = std::from_chars(begin, end, number);
  if (read.ec != std::errc() || !std::isfinite(number)) return std::nullopt;
  const std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  if (unit.empty()) return number;
  if (unit == "n") return number * 1e-9;
  if (unit == "u") return number * 1e-6;
  if (unit == "m") return number * 1e-3;
  constexpr std::string_view kLarge = "kMGTPE";
  const std::size_t at = unit.front() == 'K' ? 0 : kLarge.find(unit.front());
  if (at == std::string_view::npos) return std::nullopt;
  const auto power = static_cast<double>(at + 1);
  if (unit.size() == 1) return number * std::pow(1000.0, power);
  return unit.size() == 2 && unit[1] == 'i' ? std::optional(number * std::pow(1024.0, power))
                                            : std::nullopt;
}

std::optional<ClusterUser> read_user(std::string_view text) {
  const json config = read_json(text);
  const std::vector<const json*> contexts = json_items(config, "contexts");
  const std::vector<const json*> clusters = json_items(config, "clusters");
  if (contexts.empty() || clusters.empty()) return std::nullopt;
  ClusterUser out{.context = json_text(*contexts.front(), "name"),
                  .server = json_text(*clusters.front(), "cluster/server"),
                  .user = json_text(*contexts.front(), "context/user"),
                  .name_space = json_text(*contexts.front(), "context/namespace")};
  if (out.name_space.empty()) out.name_space = "default";
  return out.context.empty() || out.server.empty() ? std::nullopt : std::optional(out);
}

std::vector<Pod> read_pods(std::string_view text) {
  const json reply = read_json(text);
  std::vector<Pod> out;
  if (json_text(reply, "kind") == "Pod") out.push_back(read_pod(reply));
  for (const json* one : json_items(reply, "items")) out.push_back(read_pod(*one));
  std::erase_if(out, [](const Pod& pod) { return pod.name.empty(); });
  return out;
}

std::vector<ClusterNode> read_nodes(std::string_view text) {
  const json reply = read_json(text);
  std::vector<ClusterNode> out;
  for (const json* one : json_items(reply, "items")) out.push_back(read_node(*one));
  return out;
}

Usage read_usage(std::string_view lines) {
  Usage usage;
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || tab == 0) continue;
    Quantities& node = usage[std::string(line.substr(0, tab))];
    node["pods"] += 1;
    std::string_view objects = line.substr(tab + 1);
    while (!objects.empty()) {
      const std::string_view one = objects.substr(0, objects.find('}') + 1);
      if (one.empty()) break;
      add_quantities(read_json(trimmed(one)), node);
      objects.remove_prefix(one.size());
    }
  }
  return usage;
}

std::string Right::text() const {
  return subresource.empty() ? fmt::format("{} {}", verb, resource)
                             : fmt::format("{} {}/{}", verb, resource, subresource);
}

// ---- Commands

ApiResult<std::string> Api::ask(const Words& words, Time deadline) {
  std::string out;
  const auto trouble = repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        auto ran = run_once(words, {}, deadline);
        if (!ran) return ran.error();
        if (!has_failed(*ran)) out = std::move(ran->out);
        return has_failed(*ran) ? std::optional(refusal_of(words.front(), *ran)) : std::nullopt;
      },
      deadline, kSoonRefused);
  if (trouble) return std::unexpected(*trouble);
  return out;
}

ApiResult<io::CommandResult> Api::run_once(const Words& words, std::string_view input,
                                           Time deadline) {
  const Duration left = std::min(deadline - clock_.now(), kLongestCommand);
  if (left <= Duration{}) {
    return std::unexpected(
        not_sent({ErrorKind::timeout, "no time is left for 'kubectl " + words.front() + "'",
                  "try again; 'kubectl cluster-info' shows whether the cluster answers"}));
  }
  Words all = words;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::min(left, kLongestRequest));
  all.push_back(fmt::format("--request-timeout={}s", seconds.count()));
  auto ran = run_(all, input, left);
  if (!ran && ran.error().kind == ErrorKind::invalid) {
    return std::unexpected(no_kubectl(ran.error().message));
  }
  if (!ran) return std::unexpected(no_answer(ran.error()));
  return *std::move(ran);
}

ApiResult<std::optional<ClusterUser>> Api::user(Time deadline) {
  const auto out = ask({"config", "view", "--minify", "-o", "json"}, deadline);
  if (!out && out.error().message.contains("current-context must exist")) return std::nullopt;
  if (!out) return std::unexpected(out.error());
  if (auto user = read_user(*out)) return user;
  return std::unexpected(
      not_sent({ErrorKind::invalid, "'kubectl config view --minify' names no cluster",
                "'kubectl config get-contexts' lists what it knows"}));
}

ApiResult<std::vector<Right>> Api::missing(const std::vector<Right>& rights,
                                           const std::string& name_space, Time deadline) {
  std::vector<Right> open = rights;  // not known yet
  std::vector<Right> none;
  const auto trouble = repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        json items = json::array();
        for (const Right& right : open) items.push_back(review_of(right, name_space));
        const json list{{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
        const auto ran = run_once({"create", "--filename=-", "--validate=false", kReviewOutput},
                                  json_line(list), deadline);
        if (!ran) return ran.error();
        std::erase_if(open, [&](const Right& right) {
          const bool may = ran->out.contains(review_line(right, true));
          const bool may_not = ran->out.contains(review_line(right, false));
          if (may_not) none.push_back(right);
          return may || may_not;
        });
        if (open.empty()) return std::nullopt;
        return refusal_of("create", *ran);
      },
      deadline);
  if (trouble) return std::unexpected(*trouble);
  return none;
}

ApiResult<std::vector<ClusterNode>> Api::nodes(Time deadline) {
  const auto out = ask({"get", "nodes", "--output=json"}, deadline);
  if (!out) return std::unexpected(out.error());
  return read_nodes(*out);
}

// Large clusters have thousands of pods, whose manifests nobody needs here.
ApiResult<Usage> Api::usage(Time deadline) {
  const auto out =
      ask({"get", "pods", "--all-namespaces",
           "--field-selector=status.phase!=Succeeded,status.phase!=Failed", kUsageOutput},
          deadline);
  if (!out) return std::unexpected(out.error());
  return read_usage(*out);
}

ApiResult<std::vector<Pod>> Api::pods(const std::string& selector, Time deadline) {
  const auto out = ask({"get", "pods", "--selector=" + selector, "--output=json"}, deadline);
  if (!out) return std::unexpected(out.error());
  return read_pods(*out);
}

// What is there already was made by an earlier try.
Api::Created Api::create(const std::string& list, std::size_t count, Time deadline) {
  Created made;
  const auto note = [&](std::string name) {
    const bool is_new = std::ranges::find(made.names, name) == made.names.end();
    if (is_new) made.names.push_back(std::move(name));
  };
  made.trouble = repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        auto ran = run_once({"create", "--filename=-", "--validate=false", "--output=name"}, list,
                            deadline);
        if (!ran) return ran.error();
        for (std::string& name : names_in(ran->out)) note(std::move(name));
        std::string others;
        for (const std::string& line : refusals_in(ran->err)) {
          if (std::string name = refused_in(line, "(AlreadyExists)"); !name.empty()) {
            note(std::move(name));
          } else {
            others += line + "\n";
          }
        }
        if (!has_failed(*ran) || made.names.size() >= count) return std::nullopt;
        ran->err = std::move(others);
        return refusal_of("create", *ran);
      },
      deadline);
  return made;
}

// A pod's own grace is for what the cluster ends: here its agent has ended before. Those that are
// gone are told, so that a second run leaves them out.
ApiResult<Words> Api::remove(const Words& names, Time deadline) {
  Words left = names;
  Words heard;
  if (names.empty()) return heard;
  const auto trouble = repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        Words words{"delete", "pods"};
        words.insert(words.end(), left.begin(), left.end());
        words.insert(words.end(), {"--now", "--wait=false", "--output=name"});
        const auto ran = run_once(words, {}, deadline);
        if (!ran) return ran.error();
        for (const std::string& name : names_in(ran->out)) {
          if (std::erase(left, name) > 0) heard.push_back(name);
        }
        for (const std::string& line : refusals_in(ran->err)) {
          std::erase(left, refused_in(line, "(NotFound)"));
        }
        if (!has_failed(*ran) || left.empty()) return std::nullopt;
        return refusal_of("delete", *ran);
      },
      deadline);
  if (trouble) return std::unexpected(*trouble);
  return heard;
}

}  // namespace skyward::provider::kubernetes
