#pragma once

// A user at a cluster, with everything that pools have there: pods in one namespace. The kubelet
// ends them when their time is over, and their keepers before that.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/kubernetes/pods.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/renting/named_account.h"

namespace skyward::provider::kubernetes {

class KubernetesAccount final : public NamedAccount {
 public:
  // The world outlives this.
  KubernetesAccount(const World& world, Access access)
      : world_(world), access_(std::move(access)), api_(make_api()) {
    sight_.wall_s = world.wall_s;
  }

  Api& api() { return *api_; }
  // With the context and the namespace, once sign_in() knows them.
  const Access& access() const { return access_; }
  void set_tell(std::function<void(const std::string&)> tell) { sight_.tell = std::move(tell); }

  std::string_view provider() const override { return kProvider; }
  std::string_view cloud() const override { return kCluster; }
  bool machines_end_themselves() const override { return true; }
  // Asks kubectl alone, and once. From then on, each command names the context: its user may choose
  // another one meanwhile.
  Result<SweepAccount> sign_in(Time deadline) override;
  ApiResult<std::vector<NamedMachine>> machines(Time deadline) override;
  std::vector<SideResourceKind*> kinds() override { return {}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return launch_api({.pool = cluster.id}, {});
  }
  // To launch more of them.
  std::unique_ptr<MachineApi> launch_api(const Mark& mark, PodRequest request) {
    return std::make_unique<Pods>(*api_, sight_, access_.context, mark, std::move(request));
  }

 private:
  std::unique_ptr<Api> make_api() const;

  const World& world_;
  Access access_;
  std::unique_ptr<Api> api_;
  Sight sight_;
  std::optional<SweepAccount> account_;
};

// The settings of a pool in the ledger that lead back to its pods, and the way back.
std::map<std::string, std::string> way_back_of(const Access& access);
Access access_of(const LedgerPool& pool);
// Where the provider's settings lead.
Access access_of(const World& world, const ProviderSpec& spec);

}  // namespace skyward::provider::kubernetes
