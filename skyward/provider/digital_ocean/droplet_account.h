#pragma once

// An account at DigitalOcean, with everything that pools have there.

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "skyward/provider/digital_ocean/access.h"
#include "skyward/provider/digital_ocean/droplet_resources.h"
#include "skyward/provider/digital_ocean/droplets.h"
#include "skyward/provider/renting/named_account.h"

namespace skyward::provider::digital_ocean {

class DropletAccount final : public NamedAccount {
 public:
  // The world outlives this.
  DropletAccount(const World& world, RestAccess access)
      : client_(world, std::move(access.account)) {}

  Api& api() { return api_; }

  std::string_view provider() const override { return kProvider; }
  std::string_view cloud() const override { return kCloud; }
  Result<SweepAccount> sign_in(Time deadline) override {
    const auto user = find_user(api_, deadline);
    if (!user) return fail(user);
    return SweepAccount{
        .owner = user->owner, .account = user->account, .clock_ahead_s = api_.clock_ahead_s()};
  }
  ApiResult<std::vector<NamedMachine>> machines(Time deadline) override {
    return list_droplets(api_, deadline);
  }
  std::vector<SideResourceKind*> kinds() override { return {&firewalls_, &tags_, &ssh_keys_}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return std::make_unique<Droplets>(api_, api_.world(), cluster.region, Mark{.pool = cluster.id});
  }

 private:
  RestClient client_;
  Api api_{client_};
  Firewalls firewalls_{api_};
  DropletTags tags_{api_};
  SshKeys ssh_keys_{api_};
};

}  // namespace skyward::provider::digital_ocean
