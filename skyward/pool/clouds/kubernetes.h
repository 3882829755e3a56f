#pragma once

// Pods of a Kubernetes cluster, through your own kubectl and its login. docs/guide/kubernetes.md
// says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct Kubernetes {
  // The context of your kubeconfig to use. Default: the current one.
  std::optional<std::string> context{};
  // The namespace of the pods. Default: the context's.
  std::optional<std::string> name_space{};
  // The container image, with `sh` and `bash`. Default: `"python:3.x-slim"`.
  std::optional<std::string> image{};
  // The resource name of a GPU: `"nvidia.com/gpu"`. Default: from the nodes.
  std::optional<std::string> gpu{};
  // Labels that the nodes have: `{"disktype": "ssd"}`.
  std::optional<std::map<std::string, std::string>> node_selector{};
  // Taints that the pods tolerate: `"dedicated=ml:NoSchedule"`, `"dedicated"`.
  std::optional<std::vector<std::string>> tolerations{};
  // The service account of the pods: functions have its rights in the cluster, and its secrets pull
  // the image. Default: none.
  std::optional<std::string> service_account{};
  // The user id in the pods; not 0. Default: the image's.
  std::optional<int> run_as_user{};
  // Whether the pool waits for nodes that an autoscaler starts. Default: false.
  std::optional<bool> autoscaled{};
  operator ProviderSpec() const;
};

}  // namespace skyward
