#pragma once

// The user's own kubectl: which cluster it is led to, how it is run, and what its refusals mean.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/process.h"
#include "skyward/provider/keeping/commands.h"
#include "skyward/provider/rest/api_error.h"
#include "skyward/provider/world.h"

namespace skyward::provider::kubernetes {

inline constexpr const char* kProvider = "kubernetes";
inline constexpr const char* kCluster = "Kubernetes";  // as messages name it

// Where kubectl goes. A pool says so with every command: its user may choose another context while
// it is open.
struct Access {
  std::string kubeconfig{};  // as $KUBECONFIG has it; empty: kubectl's own place
  std::string context{};     // empty: the current one, or the cluster in which this program runs
  std::string name_space{};  // empty: that of the context

  // "kubectl", where to, and the command.
  Words words(const Words& command) const;
  std::vector<std::pair<std::string, std::string>> environment() const;

  bool operator==(const Access&) const = default;
  auto operator<=>(const Access&) const = default;
};

// Runs kubectl.
Runner runner_of(const World& world, const Access& access);

// The lines of what kubectl said in which it refuses something: without warnings and its log.
std::vector<std::string> refusals_in(std::string_view err);
// What such a line means.
ApiError meaning_of(std::string_view line);
// The same for a command that failed, of all its lines. `what` is the command's first word.
ApiError refusal_of(std::string_view what, const io::CommandResult& ran);
// kubectl is not on this computer.
ApiError no_kubectl(std::string message);

// Fails with `unsupported` where there is no kubectl, or no cluster that it is set up for. Starts
// nothing.
Status is_reachable(const World& world, const Access& access);

}  // namespace skyward::provider::kubernetes
