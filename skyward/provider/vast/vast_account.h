#pragma once

// An account at Vast.ai, with everything that pools have there: machines alone. Their boot script
// brings the keys, and their disks go with them.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/marks.h"
#include "skyward/provider/renting/named_account.h"
#include "skyward/provider/vast/access.h"
#include "skyward/provider/vast/contracts.h"

namespace skyward::provider::vast {

class VastAccount final : public NamedAccount {
 public:
  // The world outlives this.
  VastAccount(const World& world, RestAccess access) : client_(world, std::move(access.account)) {}

  Api& api() { return api_; }

  std::string_view provider() const override { return kProvider; }
  std::string_view cloud() const override { return kCloud; }
  Result<SweepAccount> sign_in(Time deadline) override {
    const auto user = api_.user(deadline);
    if (!user) return std::unexpected(to_error(user.error(), "Vast.ai: the account"));
    return SweepAccount{.owner = owner_digits(user->id),
                        .account = user->id,
                        .clock_ahead_s = api_.clock_ahead_s()};
  }
  ApiResult<std::vector<NamedMachine>> machines(Time deadline) override {
    return list_contracts(api_, deadline);
  }
  std::vector<SideResourceKind*> kinds() override { return {}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return contracts(cluster.region, {.pool = cluster.id});
  }
  std::unique_ptr<Contracts> contracts(std::string region, Mark mark, ContractTerms terms = {}) {
    PoolHosts& hosts = hosts_[mark.pool];
    return std::make_unique<Contracts>(api_, hosts, std::move(region), std::move(mark),
                                       std::move(terms));
  }

 private:
  RestClient client_;
  Api api_{client_};
  std::map<std::string, PoolHosts> hosts_{};  // by pool
};

}  // namespace skyward::provider::vast
