#pragma once

// Pods of a Kubernetes cluster, through your own kubectl: however it logs in, it works.
// docs/guide/kubernetes.md says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct Kubernetes {
  // A context of your kubeconfig. Left out: the current one.
  std::optional<std::string> context{};
  // Where the pods are. Left out: that of the context.
  std::optional<std::string> name_space{};
  // The container image, with `sh` and `bash`. Left out: `"python:3.x-slim"`.
  std::optional<std::string> image{};
  // The resource name of a GPU: `"nvidia.com/gpu"`. Left out: from the nodes.
  std::optional<std::string> gpu{};
  // Labels that the nodes have: `{"disktype": "ssd"}`.
  std::optional<std::map<std::string, std::string>> node_selector{};
  // Taints that the pods tolerate: `"dedicated=ml:NoSchedule"`, `"dedicated"`.
  std::optional<std::vector<std::string>> tolerations{};
  // Whose rights functions have in the cluster, and whose secrets pull the image. Left out: none.
  std::optional<std::string> service_account{};
  // The user id in the pods; not 0. Left out: as the image has it.
  std::optional<int> run_as_user{};
  // Whether the pool waits for nodes that are started for it. Default: false.
  std::optional<bool> autoscaled{};
  operator ProviderSpec() const;
};

}  // namespace skyward
