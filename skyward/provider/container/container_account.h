#pragma once

// An engine with everything that pools have there: containers. Their keepers end them.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/container/containers.h"
#include "skyward/provider/renting/named_account.h"

namespace skyward::provider::container {

class ContainerAccount final : public NamedAccount {
 public:
  // The world outlives this.
  ContainerAccount(const World& world, Access access)
      : world_(world), access_(std::move(access)), api_(make_api()) {}

  Api& api() { return *api_; }
  // With the runtime, once sign_in() knows it.
  const Access& access() const { return access_; }
  // As it was last seen.
  const EngineHost& host() const { return host_; }

  std::string_view provider() const override { return kProvider; }
  std::string_view cloud() const override { return kContainers; }
  bool machines_end_themselves() const override { return true; }
  // Asks the engine once. From then on, each command names the runtime: another may be installed
  // meanwhile.
  Result<SweepAccount> sign_in(Time deadline) override;
  // The same, and host() is as it is now.
  Result<SweepAccount> look(Time deadline);
  ApiResult<std::vector<NamedMachine>> machines(Time deadline) override;
  std::vector<SideResourceKind*> kinds() override { return {}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return launch_api({.pool = cluster.id}, {});
  }
  // To launch more of them.
  std::unique_ptr<MachineApi> launch_api(const Mark& mark, ContainerOrder order) {
    return std::make_unique<Containers>(*api_, host_.name, mark, std::move(order));
  }

 private:
  std::unique_ptr<Api> make_api() const;

  const World& world_;
  Access access_;
  std::unique_ptr<Api> api_;
  EngineHost host_;
  std::optional<SweepAccount> account_;
};

}  // namespace skyward::provider::container
