#pragma once

// The API of a Kubernetes cluster as far as pods need it: nodes, namespaces, quotas, access
// reviews, and pods with a scheduler and a kubelet that are as simple as can be. A pod is a Machine
// whose request is the pod's manifest and whose id is its name; names are unique over all
// namespaces here. Simplified: no watches, no controllers; `exec` is the test's.
//
// Tests set a cluster up through its own API, or with POST /_double/cluster: rights that its user
// lacks, images that cannot be pulled.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "doubles/cloud.h"

namespace skyward::doubles {

// "8", "500m", "32Gi" as a number; none if it is no quantity.
std::optional<double> read_quantity(const Json& quantity);

class Kubernetes final : public Cloud {
 public:
  explicit Kubernetes(std::uint64_t seed = 1);

  std::map<std::string, std::string> environment(const std::string& url) const override;

  // A node that is ready. `resources`: what can be allocated, as Kubernetes writes it.
  void add_node(const std::string& name, const Json& resources, const Json& labels = Json::object(),
                const Json& taints = Json::array());

  std::map<std::string, Json> nodes{};
  std::map<std::string, Json> namespaces{};
  std::map<std::string, Json> quotas{};             // "namespace/name"
  std::set<std::string> service_accounts{};         // "namespace/name", beside "default" of each
  std::set<std::string> forbidden{};                // "create pods", "list nodes"
  std::map<std::string, std::string> unpullable{};  // images, and why

 private:
  using Names = std::vector<std::string>;
  struct Route {
    const char* method;
    const char* pattern;
    const char* right;  // verb and resource; empty: everybody may
    std::vector<const char*> query;
    io::HttpReply (Kubernetes::*perform)(const Request&, const Names&);
  };
  // What became of a pod beside its moments.
  struct PodState {
    std::string space{};
    std::string node{};   // empty: not scheduled
    std::string unfit{};  // why not
    Time scheduled = kNever;
    Duration grace{};   // of its deletion
    Json disruption{};  // a condition
  };
  static const std::vector<Route>& routes();

  io::HttpReply perform(const Request& request) override;
  io::HttpReply refusal(int status, const std::string& what) override;
  io::HttpReply refuse(int status, const std::string& reason, const std::string& what);
  io::HttpReply control_own(const Request& request) override;
  void on_preempted(Machine& one) override;
  bool tells_retry_after() const override { return true; }

  // What there is.
  io::HttpReply version(const Request&, const Names&);
  io::HttpReply core_versions(const Request&, const Names&);
  io::HttpReply groups(const Request&, const Names&);
  io::HttpReply core_resources(const Request&, const Names&);
  io::HttpReply review_resources(const Request&, const Names&);
  io::HttpReply policy_resources(const Request&, const Names&);
  io::HttpReply review_access(const Request& request, const Names&);

  // Nodes and namespaces.
  io::HttpReply list_nodes(const Request& request, const Names&);
  io::HttpReply get_node(const Request&, const Names& names);
  io::HttpReply create_node(const Request& request, const Names&);
  io::HttpReply delete_node(const Request&, const Names& names);
  io::HttpReply list_namespaces(const Request& request, const Names&);
  io::HttpReply get_namespace(const Request&, const Names& names);
  io::HttpReply create_namespace(const Request& request, const Names&);
  io::HttpReply create_quota(const Request& request, const Names& names);
  io::HttpReply create_service_account(const Request& request, const Names& names);

  // Pods.
  io::HttpReply list_pods(const Request& request, const Names& names);
  io::HttpReply get_pod(const Request&, const Names& names);
  io::HttpReply create_pod(const Request& request, const Names& names);
  io::HttpReply delete_pod(const Request& request, const Names& names);
  io::HttpReply evict_pod(const Request& request, const Names& names);
  io::HttpReply list_events(const Request& request, const Names& names);
  std::optional<io::HttpReply> not_admitted(const Json& pod, const std::string& space);
  std::string over_quota(const Json& pod, const std::string& space) const;
  Machine* find_pod(const std::string& space, const std::string& name);
  void end_pod(Machine& one, Duration grace);
  bool is_over(const Machine& one) const;  // it has succeeded or failed
  Json pod_json(const Machine& one);
  Json status_json(const Machine& one) const;
  Json container_json(const Machine& one) const;
  io::HttpReply paged(const Request& request, const std::string& kind, const Json& items);
  Json listed(const std::string& kind, const Json& items) const;
  Json metadata(Json given, const std::string& name, Time made);

  // The scheduler.
  void schedule();
  std::string why_not(const Json& pod, const Json& node) const;  // empty: it fits
  std::map<std::string, double> free_on(const std::string& node) const;

  std::map<std::string, PodState> pods_{};  // by machine
};

}  // namespace skyward::doubles
