#include "skyward/provider/kubernetes/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/keeping/standard_image.h"

namespace skyward::provider::kubernetes {

namespace {

constexpr const char* kTypeLabel = "node.kubernetes.io/instance-type";
constexpr const char* kArchitectureLabel = "kubernetes.io/arch";
constexpr const char* kMemoryLabel = "nvidia.com/gpu.memory";  // in MiB
constexpr std::array kGpuResources = {"nvidia.com/gpu", "amd.com/gpu"};
// Of NVIDIA's GPU Feature Discovery, of Google's clusters, of AMD's node labeller.
constexpr std::array kGpuLabels = {"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator",
                                   "amd.com/gpu.product-name"};
constexpr double kGib = 0x1p30;
constexpr double kMib = 0x1p20;

double amount_of(const Quantities& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? 0 : found->second;
}

// "NVIDIA-H100-80GB-HBM3" in capitals, without its dashes.
std::string product_words(std::string_view product) {
  std::string words = upper(product);
  std::ranges::replace(words, '-', ' ');
  std::ranges::replace(words, '_', ' ');
  constexpr std::string_view kShared = " SHARED";  // in turns
  if (words.ends_with(kShared)) words.resize(words.size() - kShared.size());
  return words;
}

// 80, where a word says "80GB"; else 0.
double memory_in(std::string_view words) {
  for (const std::string& word : items_of(words, ' ')) {
    if (!word.ends_with("GB")) continue;
    double out = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), out);
    if (read.ec == std::errc() && read.ptr + 2 == word.data() + word.size()) return out;
  }
  return 0;
}

bool tolerates(const Toleration& toleration, const Taint& taint) {
  return toleration.key == taint.key && (!toleration.value || *toleration.value == taint.value) &&
         (toleration.effect.empty() || toleration.effect == taint.effect);
}

std::string gpu_resource_of(const ClusterNode& node, const Wishes& wishes) {
  if (!wishes.gpu.empty()) return amount_of(node.allocatable, wishes.gpu) > 0 ? wishes.gpu : "";
  for (const char* name : kGpuResources) {
    if (amount_of(node.allocatable, name) > 0) return name;
  }
  return {};
}

// Whether pods of the pool may run there; those without GPUs may not where `gpus_alone` is set.
bool takes_pods(const ClusterNode& node, const Wishes& wishes, const std::string& gpu_resource,
                bool& gpus_alone) {
  if (!node.takes_pods) return false;
  for (const auto& [name, value] : wishes.selector) {
    if (value_at(node.labels, name) != value || !node.labels.contains(name)) return false;
  }
  for (const Taint& taint : node.taints) {
    const bool given = std::ranges::any_of(
        wishes.tolerations, [&](const Toleration& one) { return tolerates(one, taint); });
    if (given || taint.effect == "PreferNoSchedule") continue;
    if (taint.key != gpu_resource || gpu_resource.empty()) return false;
    gpus_alone = true;
  }
  return true;
}

void describe_gpus(const ClusterNode& node, Candidate& candidate) {
  std::string product;
  for (const char* label : kGpuLabels) {
    product = value_at(node.labels, label);
    if (product.empty()) continue;
    candidate.gpu_label = {{label, product}};
    break;
  }
  const std::string words = product_words(product);
  candidate.offer.accelerator = accelerator_in(words);
  candidate.offer.accelerator_form = form_factor_in(words);
  candidate.offer.accelerator_memory_gb = memory_in(words);
  candidate.offer.accelerator_count = amount_of(node.allocatable, candidate.gpu_resource);
  if (const auto memory = read_quantity(value_at(node.labels, kMemoryLabel))) {
    candidate.offer.accelerator_memory_gb = *memory / 1024;
  }
  candidate.offer.instance_type += ":" + lower(product.empty() ? candidate.gpu_resource : product);
}

Candidate candidate_of(const ClusterNode& node, const std::string& gpu_resource,
                       const std::string& cluster) {
  Candidate out{.gpu_resource = gpu_resource};
  const std::string type = value_at(node.labels, kTypeLabel);
  if (!type.empty()) out.type_label = {{kTypeLabel, type}};
  const std::string architecture = value_at(node.labels, kArchitectureLabel);
  if (!architecture.empty()) out.architecture_label = {{kArchitectureLabel, architecture}};
  out.offer = {.instance_type = type.empty() ? "node" : type,
               .region = cluster,
               // Of two processors, a node keeps a part for itself: count_pods() is exact.
               .cpus = static_cast<int>(std::ceil(amount_of(node.allocatable, "cpu"))),
               .memory_gb = amount_of(node.allocatable, "memory") / kGib,
               .architecture = architecture == "amd64" ? "x86_64" : architecture,
               .price_on_demand = 0.0,
               .billing_increment_minutes = 0};
  if (!gpu_resource.empty()) describe_gpus(node, out);
  return out;
}

bool are_alike(const Candidate& a, const Candidate& b) {
  return std::tie(a.offer, a.gpu_resource, a.type_label, a.gpu_label, a.gpus_alone) ==
         std::tie(b.offer, b.gpu_resource, b.type_label, b.gpu_label, b.gpus_alone);
}

Quantities needs_of(const PodRequest& request) {
  Quantities out{{"pods", 1},
                 {"cpu", request.cpus > 0 ? request.cpus : kLeastCpus},
                 {"memory", kMib * static_cast<double>(request.memory_mb > 0 ? request.memory_mb
                                                                             : kLeastMemory_mb)}};
  if (request.gpus > 0) out[request.gpu_resource] = request.gpus;
  return out;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_alphanumeric(c) || c == '-' || c == '_' || c == '.' || c == '/';
  });
}

std::unexpected<Error> refused(std::string_view setting, std::string_view value,
                               const char* expected) {
  return fail(ErrorKind::invalid, fmt::format("Kubernetes: {}=\"{}\" is not valid", setting, value),
              expected);
}

}  // namespace

// ---- Settings

std::optional<Toleration> read_toleration(std::string_view text) {
  Toleration out;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    out.effect = text.substr(colon + 1);
    const bool known =
        out.effect == "NoSchedule" || out.effect == "NoExecute" || out.effect == "PreferNoSchedule";
    if (!known) return std::nullopt;
    text = text.substr(0, colon);
  }
  const std::size_t equal = text.find('=');
  out.key = text.substr(0, equal);
  if (equal != std::string_view::npos) out.value = text.substr(equal + 1);
  const bool good_value = !out.value || out.value->empty() || is_name(*out.value);
  return is_name(out.key) && good_value ? std::optional(out) : std::nullopt;
}

Result<Wishes> read_wishes(const ProviderSpec& spec) {
  Wishes out{.image = spec.setting("image"),
             .gpu = spec.setting("gpu"),
             .service_account = spec.setting("service_account"),
             .autoscaled = spec.setting("autoscaled") == "true"};
  if (!out.gpu.empty() && (!is_name(out.gpu) || !out.gpu.contains('/'))) {
    return refused("gpu", out.gpu, "name a resource of nodes, such as \"nvidia.com/gpu\"");
  }
  if (out.image.find_first_of(" \t") != std::string::npos) {
    return refused("image", out.image, "name a container image, such as \"python:3.12-slim\"");
  }
  for (const std::string& item : items_of(spec.setting("node_selector"), ',')) {
    const std::size_t equal = item.find('=');
    const std::string name = item.substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : item.substr(equal + 1);
    if (equal == std::string::npos || !is_name(name) || (!value.empty() && !is_name(value))) {
      return refused("node_selector", item,
                     "give labels of nodes with their values: {\"disktype\": \"ssd\"}");
    }
    out.selector[name] = value;
  }
  for (const std::string& item : items_of(spec.setting("tolerations"), ',')) {
    const auto toleration = read_toleration(item);
    if (!toleration) {
      return refused("tolerations", item,
                     "write taints as 'kubectl taint' does: \"dedicated=ml:NoSchedule\"");
    }
    out.tolerations.push_back(*toleration);
  }
  if (const std::string user = spec.setting("run_as_user"); !user.empty()) {
    std::int64_t id = 0;
    const auto read = std::from_chars(user.data(), user.data() + user.size(), id);
    const bool whole = read.ec == std::errc() && read.ptr == user.data() + user.size();
    if (!whole || id < 1 || id > std::numeric_limits<std::int32_t>::max()) {
      return refused("run_as_user", user,
                     "give the number of a user other than root, such as 1000");
    }
    out.user = id;
  }
  return out;
}

// ---- What nodes hold

std::vector<Candidate> candidates_of(const std::vector<ClusterNode>& nodes, const Usage& usage,
                                     const Wishes& wishes, const std::string& cluster) {
  std::vector<Candidate> out;
  for (const ClusterNode& node : nodes) {
    const std::string resource = gpu_resource_of(node, wishes);
    bool gpus_alone = false;
    if (!takes_pods(node, wishes, resource, gpus_alone)) continue;
    Candidate candidate = candidate_of(node, resource, cluster);
    candidate.gpus_alone = gpus_alone;
    Candidate::Room room{.whole = node.allocatable, .free = node.allocatable};
    if (const auto used = usage.find(node.name); used != usage.end()) {
      for (const auto& [name, count] : used->second) room.free[name] -= count;
    }
    auto same =
        std::ranges::find_if(out, [&](const Candidate& one) { return are_alike(one, candidate); });
    if (same == out.end()) same = out.insert(out.end(), std::move(candidate));
    same->nodes.push_back(std::move(room));
  }
  return out;
}

Candidate unseen_candidate(const PoolSpec& spec, const Wishes& wishes, const std::string& cluster) {
  const int workers = workers_per_node(spec);
  Candidate out{.gpu_resource = wishes.gpu, .seen = false};
  out.offer = {.instance_type = spec.machine.empty() ? "any" : spec.machine,
               .region = cluster,
               .cpus = static_cast<int>(std::ceil(std::max(spec.cpus * workers, 2.0))),
               .memory_gb = std::max(static_cast<double>(spec.memory_mb * workers) / 1024, 2.0),
               .price_on_demand = 0.0,
               .billing_increment_minutes = 0};
  if (!spec.machine.empty()) out.type_label = {{kTypeLabel, spec.machine}};
  if (spec.accelerator) {
    out.offer.accelerator = spec.accelerator->name;
    out.offer.accelerator_count = spec.accelerator->count;
    if (out.gpu_resource.empty()) out.gpu_resource = kGpuResources.front();
  }
  return out;
}

const Candidate* candidate_for(const std::vector<Candidate>& candidates, const Offer& offer) {
  const auto found = std::ranges::find_if(candidates, [&](const Candidate& one) {
    return one.offer.instance_type == offer.instance_type &&
           one.offer.architecture == offer.architecture;
  });
  return found == candidates.end() ? nullptr : &*found;
}

PodRequest request_of(const Candidate& candidate, const Wishes& wishes, const PoolSpec& spec) {
  const int workers = workers_per_node(spec);
  PodRequest out{.image = wishes.image.empty() ? standard_image(spec) : wishes.image,
                 .cpus = spec.cpus * workers,
                 .memory_mb = spec.memory_mb * workers,
                 .selector = wishes.selector,
                 .tolerations = wishes.tolerations,
                 .service_account = wishes.service_account,
                 .user = wishes.user};
  if (!spec.machine.empty())
    out.selector.insert(candidate.type_label.begin(), candidate.type_label.end());
  // A C++ program runs on one architecture alone, and so may an image.
  if (!spec.architecture.empty()) {
    out.selector.emplace(kArchitectureLabel,
                         spec.architecture == "x86_64" ? "amd64" : spec.architecture);
  } else {
    out.selector.insert(candidate.architecture_label.begin(), candidate.architecture_label.end());
  }
  if (!spec.accelerator) return out;
  out.gpu_resource = candidate.gpu_resource;
  out.gpus = static_cast<int>(std::ceil(spec.accelerator->count));
  if (wishes.gpu.empty())
    out.selector.insert(candidate.gpu_label.begin(), candidate.gpu_label.end());
  // Nodes with GPUs are often tainted with the name of the resource, to keep others away.
  out.tolerations.push_back({.key = out.gpu_resource, .value = std::nullopt, .effect = {}});
  return out;
}

int count_pods(const PodRequest& request, const std::vector<Candidate>& candidates, bool now) {
  const Quantities needs = needs_of(request);
  double out = 0;
  for (const Candidate& candidate : candidates) {
    const auto lacks = [&](const auto& labels, const auto& label) {
      return request.selector.contains(label) &&
             value_at(labels, label) != value_at(request.selector, label);
    };
    bool fits = request.gpus > 0 || !candidate.gpus_alone;
    fits = fits && !lacks(candidate.architecture_label, kArchitectureLabel);
    if (!candidate.type_label.empty()) fits = fits && !lacks(candidate.type_label, kTypeLabel);
    for (const char* label : kGpuLabels) {
      fits = fits && (request.gpus == 0 || !lacks(candidate.gpu_label, label));
    }
    if (!fits) continue;
    for (const Candidate::Room& room : candidate.nodes) {
      double count = std::numeric_limits<int>::max();
      for (const auto& [name, need] : needs) {
        const Quantities& there = now ? room.free : room.whole;
        if (name == "pods" && !there.contains(name)) continue;
        count = std::min(count, std::floor(std::max(amount_of(there, name), 0.0) / need));
      }
      out += count;
    }
  }
  return static_cast<int>(std::min<double>(out, std::numeric_limits<int>::max()));
}

// ---- Offers

namespace {

// A candidate's offer as the pool would have it; none if the pool cannot be there.
std::optional<Offer> offer_for(const Candidate& candidate, const Wishes& wishes,
                               const PoolSpec& spec) {
  Offer offer = candidate.offer;
  if (!spec.accelerator && candidate.gpus_alone) return std::nullopt;
  if (!spec.machine.empty() && offer.instance_type != spec.machine) {
    const bool is_type = value_at(candidate.type_label, kTypeLabel) == spec.machine;
    if (!is_type) return std::nullopt;
  }
  // Of a named type, the choice below looks at nothing else.
  const bool is_other = !spec.architecture.empty() && !offer.architecture.empty() &&
                        offer.architecture != spec.architecture;
  if (!spec.machine.empty() && is_other) return std::nullopt;
  if (!wishes.gpu.empty() && spec.accelerator && !candidate.gpu_resource.empty()) {
    offer.accelerator = spec.accelerator->name;
    offer.accelerator_form.clear();
  }
  return offer;
}

Error no_room(const PoolSpec& spec, int most) {
  return {ErrorKind::invalid,
          fmt::format("Kubernetes: nodes={}, but the cluster's nodes hold at most {} such pods",
                      spec.nodes, most),
          "ask for fewer, or for less in each; with autoscaled=True, the pool waits for nodes that "
          "are started for it"};
}

}  // namespace

Result<std::vector<Offer>> fitting_candidates(const std::vector<Candidate>& candidates,
                                              const Wishes& wishes, const PoolSpec& spec) {
  if (candidates.empty()) {
    return fail(ErrorKind::invalid,
                "Kubernetes: no node of the cluster is ready, has the labels of node_selector=, "
                "and has only taints that the pool tolerates",
                "'kubectl get nodes --show-labels' and 'kubectl describe nodes' show them; with "
                "autoscaled=True, the pool waits for nodes that are started for it");
  }
  std::vector<Offer> possible;
  for (const Candidate& candidate : candidates) {
    if (auto offer = offer_for(candidate, wishes, spec)) possible.push_back(*std::move(offer));
  }
  auto fitting = fitting_offers(possible, spec);
  if (!fitting) {
    Error why = std::move(fitting.error());
    why.message = "Kubernetes: " + why.message;
    if (spec.accelerator && wishes.gpu.empty()) {
      why.hint +=
          "; if nodes have no labels for their GPUs, name the resource: gpu=\"nvidia.com/gpu\"";
    }
    return std::unexpected(std::move(why));
  }
  std::vector<Offer> now;
  std::vector<Offer> later;
  int most = 0;
  const int workers = workers_per_node(spec);
  for (Offer& offer : *fitting) {
    const Candidate* const candidate = candidate_for(candidates, offer);
    const PodRequest request = request_of(*candidate, wishes, spec);
    const int holds = count_pods(request, candidates, false);
    most = std::max(most, holds);
    const bool may_grow = std::ranges::any_of(candidates, [&](const Candidate& one) {
      return !one.seen && one.offer.instance_type == offer.instance_type;
    });
    if (!may_grow && holds < spec.nodes) continue;
    if (spec.cpus > 0) offer.cpus = static_cast<int>(std::ceil(spec.cpus * workers));
    if (spec.memory_mb > 0) offer.memory_gb = static_cast<double>(spec.memory_mb) * workers / 1024;
    offer.accelerator_count = spec.accelerator ? spec.accelerator->count : 0;
    if (!spec.accelerator) offer.accelerator.clear();
    const bool fits_now = candidate->seen && count_pods(request, candidates, true) >= spec.nodes;
    (fits_now ? now : later).push_back(std::move(offer));
  }
  if (now.empty() && later.empty()) return std::unexpected(no_room(spec, most));
  now.insert(now.end(), later.begin(), later.end());
  std::ranges::stable_partition(now, [](const Offer& offer) {
    return offer.architecture.empty() || offer.architecture == own_architecture();
  });
  return now;
}

}  // namespace skyward::provider::kubernetes
