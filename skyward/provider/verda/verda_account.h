#pragma once

// An account at Verda, with everything that pools have there: machines, and keys, scripts and
// volumes.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/renting/named_account.h"
#include "skyward/provider/verda/access.h"
#include "skyward/provider/verda/servers.h"

namespace skyward::provider::verda {

// Keys or scripts, which differ in their words alone.
class VerdaTexts final : public SideResourceKind {
 public:
  // `path`: "ssh-keys"; `field`: "key"; `text`: of the one to make.
  VerdaTexts(Api& api, std::string_view kind, const char* path, const char* field,
             std::string text = {})
      : api_(api), kind_(kind), path_(path), field_(field), text_(std::move(text)) {}
  static VerdaTexts keys(Api& api, std::string text = {}) {
    return {api, "ssh_key", "ssh-keys", "key", std::move(text)};
  }
  static VerdaTexts scripts(Api& api, std::string text = {}) {
    return {api, "script", "scripts", "script", std::move(text)};
  }

  std::string_view kind() const override { return kind_; }
  ApiResult<std::string> create(const std::string& name, Time deadline) override {
    return api_.create_text(path_, field_, name, text_, deadline);
  }
  ApiResult<std::vector<SideResource>> list(Time deadline) override;
  ApiResult<void> remove(const std::string& id, Time deadline) override {
    return api_.delete_text(path_, id, deadline);
  }

 private:
  Api& api_;
  const std::string_view kind_;
  const char* const path_;
  const char* const field_;
  const std::string text_;
};

// The disks of machines, where one outlived its machine.
class VerdaVolumes final : public SideResourceKind {
 public:
  explicit VerdaVolumes(Api& api) : api_(api) {}

  std::string_view kind() const override { return "volume"; }
  bool costs() const override { return true; }
  ApiResult<std::string> create(const std::string& name, Time deadline) override;
  // Without those of machines that exist.
  ApiResult<std::vector<SideResource>> list(Time deadline) override;
  ApiResult<void> remove(const std::string& id, Time deadline) override;

 private:
  Api& api_;
};

class VerdaAccount final : public NamedAccount {
 public:
  // The world outlives this.
  VerdaAccount(const World& world, RestAccess access)
      : client_(world, std::move(access.account)), user_(std::move(access.user)) {}

  Api& api() { return api_; }
  // The API tells nothing about accounts: the client id stands for one.
  SweepAccount sweep_account() const {
    return {.owner = user_,
            .account = user_,
            .by_credentials = true,
            .clock_ahead_s = api_.clock_ahead_s()};
  }

  std::string_view provider() const override { return kProvider; }
  std::string_view cloud() const override { return kCloud; }
  Result<SweepAccount> sign_in(Time deadline) override;
  ApiResult<std::vector<NamedMachine>> machines(Time deadline) override {
    return list_servers(api_, deadline);
  }
  std::vector<SideResourceKind*> kinds() override { return {&volumes_, &scripts_, &keys_}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return std::make_unique<Servers>(api_, cluster.region, Mark{.pool = cluster.id});
  }

 private:
  RestClient client_;
  Api api_{client_};
  const std::string user_;
  VerdaVolumes volumes_{api_};
  VerdaTexts scripts_ = VerdaTexts::scripts(api_);
  VerdaTexts keys_ = VerdaTexts::keys(api_);
};

}  // namespace skyward::provider::verda
