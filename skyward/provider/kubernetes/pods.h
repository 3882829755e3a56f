#pragma once

// The machines of one pool at Kubernetes (provider/pool_machines.h): pods. Their names are chosen
// here and carry the marks, so that they are ids, too
// (docs/decisions/0022-a-machine-at-kubernetes-is-a-pod.md).

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/kubernetes/kubernetes_api.h"
#include "skyward/provider/kubernetes/manifest.h"
#include "skyward/provider/renting/named_machines.h"

namespace skyward::provider::kubernetes {

// What the driver that opened a pool knows of a pod beside what the cluster shows.
struct PodMemory {
  bool ran = false;
  bool told = false;               // why it has ended
  std::optional<Time> prepared{};  // since when its node does so
  std::optional<Time> trouble{};   // since when its image cannot be pulled
  std::string cause{};             // as the kubelet said it first
};

// Why a container will never start, or has not for long; none while it may. Notes in `memory` what
// passes.
std::optional<Reason> never_starts(const Pod& pod, PodMemory& memory, Time now);
// What to do about a reason of that kind.
std::string hint_of(const Reason& reason);
// A pod that has ended has stopped: it is there until it is deleted. One whose grace is long over
// is gone: its node does not answer. `wall_s`: seconds since 1970.
Stage stage_of(const Pod& pod, std::int64_t wall_s);
// Why the cluster ended a pod, in a line for people; empty while it has not.
std::string end_text(const Pod& pod);
// Why pods wait: "2 pods wait: 0/3 nodes are available: …"; empty if none does.
std::string waiting_text(const std::vector<Pod>& pods);

// What all looks at pods share.
struct Sight {
  std::map<std::string, PodMemory> memories{};  // by name
  std::function<std::int64_t()> wall_s{};
  std::function<void(const std::string&)> tell{};  // hears lines for people; may be empty
};

// Once their nodes have prepared pods for long: "2 pods still start: their node pulls the image".
std::string preparing_text(const std::vector<Pod>& pods, Sight& sight, Time now);

class Pods final : public NamedMachines {
 public:
  // The api and the sight outlive this. To find or terminate pods, `mark.pool` is enough.
  Pods(Api& api, Sight& sight, std::string context, Mark mark, PodRequest request = {});

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                             Time deadline) override;

 protected:
  ApiResult<std::vector<NamedMachine>> list(Time deadline) override;

 private:
  Api& api_;
  Sight& sight_;
  const Mark mark_;
  const PodRequest request_;
};

// Pods as machines. Tells why they wait or have ended.
std::vector<NamedMachine> machines_of(const std::vector<Pod>& pods, Sight& sight, Time now);

}  // namespace skyward::provider::kubernetes
