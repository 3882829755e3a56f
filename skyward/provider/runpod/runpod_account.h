#pragma once

// An account at RunPod, with everything that pools have there: pods alone. Their first command
// brings the keys, and their disks go with them.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/provider/marks.h"
#include "skyward/provider/renting/named_account.h"
#include "skyward/provider/runpod/access.h"
#include "skyward/provider/runpod/pods.h"

namespace skyward::provider::runpod {

class RunPodAccount final : public NamedAccount {
 public:
  // The world outlives this.
  RunPodAccount(const World& world, RestAccess access)
      : client_(world, std::move(access.account)), key_digits_(std::move(access.user)) {}

  Api& api() { return api_; }

  std::string_view provider() const override { return kProvider; }
  std::string_view cloud() const override { return kCloud; }
  Result<SweepAccount> sign_in(Time deadline) override {
    const auto user = api_.user(deadline);
    if (!user) return std::unexpected(to_error(user.error(), "RunPod: the account"));
    // Two names for one account, of which a pool has either: so it goes by its pods, too.
    const std::string account = *user ? (*user)->id : key_digits_;
    return SweepAccount{.owner = *user ? owner_digits(account) : key_digits_,
                        .account = account,
                        .by_credentials = true,
                        .lists_own = true,
                        .clock_ahead_s = api_.clock_ahead_s()};
  }
  ApiResult<std::vector<NamedMachine>> machines(Time deadline) override {
    return list_pods(api_, deadline);
  }
  std::vector<SideResourceKind*> kinds() override { return {}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return std::make_unique<Pods>(api_, cluster.region, Mark{.pool = cluster.id});
  }

 private:
  RestClient client_;
  const std::string key_digits_;
  Api api_{client_};
};

}  // namespace skyward::provider::runpod
