#pragma once

// A cluster by kubectl's commands: what they take and what they print, as plain structs. No ideas
// of ours. How kubectl is run is an argument.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/provider/kubernetes/kubectl.h"

namespace skyward::provider::kubernetes {

// A context, written out.
struct ClusterUser {
  std::string context{};     // empty: the cluster in which this program runs
  std::string server{};      // its address
  std::string user{};        // as the kubeconfig calls it
  std::string name_space{};  // "default" where the context names none

  bool operator==(const ClusterUser&) const = default;
};

struct Reason {
  std::string code{};  // "ErrImagePull"
  std::string message{};

  bool operator==(const Reason&) const = default;
};

struct Pod {
  std::string name{};
  std::string node{};  // where it runs; empty: nowhere yet
  std::string phase{};
  std::string ip{};
  std::optional<std::int64_t> deleted_s{};  // when its grace is over, if it is told to end
  std::optional<Reason> unscheduled{};
  std::optional<Reason> disrupted{};  // the condition DisruptionTarget
  std::optional<Reason> waiting{};    // why our container does not run yet
  std::optional<Reason> ended{};      // why it, or our container, has ended
  bool runs = false;                  // our container does

  bool operator==(const Pod&) const = default;
};

using Quantities = std::map<std::string, double>;  // by the names of resources

struct Taint {
  std::string key{};
  std::string value{};
  std::string effect{};

  bool operator==(const Taint&) const = default;
};

struct ClusterNode {
  std::string name{};
  std::map<std::string, std::string> labels{};
  std::vector<Taint> taints{};
  Quantities allocatable{};
  bool takes_pods = false;  // ready, and not cordoned
};

// What the pods on a node have asked for.
using Usage = std::map<std::string, Quantities>;  // by node

// "8", "7910m", "32Gi".
std::optional<double> read_quantity(std::string_view text);
// What kubectl prints as JSON. Nothing here throws; what is missing is empty.
std::optional<ClusterUser> read_user(std::string_view config);
std::vector<Pod> read_pods(std::string_view pods);  // a list or one alone
std::vector<ClusterNode> read_nodes(std::string_view nodes);
// A line for each pod: its node, a tab, and the requests of its containers as objects.
Usage read_usage(std::string_view lines);

// A verb and what it is used on: {"create", "pods", "exec"}.
struct Right {
  std::string verb{};
  std::string resource{};
  std::string subresource{};

  std::string text() const;
  bool operator==(const Right&) const = default;
};

// Commands are repeated when the cluster is busy or its answer is lost; of a command that sends
// several requests, those that failed. Names are chosen here, so that a second creation finds the
// first.
class Api {
 public:
  Api(Runner run, CommandClock clock) : run_(std::move(run)), clock_(std::move(clock)) {}

  Time now() const { return clock_.now(); }

  // None where kubectl has no context. Asks nobody.
  ApiResult<std::optional<ClusterUser>> user(Time deadline);
  // Which of these the user does not have in the namespace.
  ApiResult<std::vector<Right>> missing(const std::vector<Right>& rights,
                                        const std::string& name_space, Time deadline);
  ApiResult<std::vector<ClusterNode>> nodes(Time deadline);
  // Of the pods of all namespaces.
  ApiResult<Usage> usage(Time deadline);

  // `selector`: labels, as kubectl takes them.
  ApiResult<std::vector<Pod>> pods(const std::string& selector, Time deadline);
  struct Created {
    Words names{};
    std::optional<ApiError> trouble{};  // with the others
  };
  // `list`: the manifests of so many.
  Created create(const std::string& list, std::size_t count, Time deadline);
  // Returns those that were there.
  ApiResult<Words> remove(const Words& names, Time deadline);

 private:
  ApiResult<std::string> ask(const Words& words, Time deadline);
  ApiResult<io::CommandResult> run_once(const Words& words, std::string_view input, Time deadline);

  const Runner run_;
  const CommandClock clock_;
};

}  // namespace skyward::provider::kubernetes
