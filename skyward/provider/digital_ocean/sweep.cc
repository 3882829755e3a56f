#include "skyward/provider/digital_ocean/sweep.h"

#include <utility>

#include "skyward/provider/digital_ocean/access.h"
#include "skyward/provider/digital_ocean/droplet_resources.h"
#include "skyward/provider/digital_ocean/droplets.h"
#include "skyward/provider/renting/sweeping.h"

namespace skyward::provider::digital_ocean {

namespace {

class DigitalOceanLeaks final : public LeakSource {
 public:
  DigitalOceanLeaks(const World& world, RestAccount account) : client_(world, std::move(account)) {}

  std::string_view name() const override { return kProvider; }
  std::string_view vendor() const override { return kCloud; }
  bool machines_end_themselves() const override { return false; }
  Result<SweepAccount> sign_in(Time deadline) override;
  // A listing is of the whole account.
  std::string place_of(const std::string&) const override { return {}; }
  Result<std::vector<std::string>> regions(Time) override { return std::vector<std::string>(); }
  Result<Listing> list(const std::string& region, const std::optional<std::string>& pool,
                       Time deadline) override;
  std::string way_to_account(const LedgerPool&) const override {
    return "with a token of that team, run skyward gc";
  }

  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return std::make_unique<Droplets>(api_, cluster.region, Mark{.pool = cluster.id});
  }
  Result<std::vector<std::string>> clear(const Cluster&, PoolBook& book, Time deadline) override {
    return remove_resources(kCloud, kProvider, book, DropletResources(api_).kinds(), deadline);
  }

 private:
  RestClient client_;
  Api api_{client_};
};

Result<SweepAccount> DigitalOceanLeaks::sign_in(Time deadline) {
  const auto user = find_user(api_, deadline);
  if (!user) return fail(user);
  return SweepAccount{
      .owner = user->owner, .account = user->account, .clock_ahead_s = clock_difference_s(api_)};
}

Result<Listing> DigitalOceanLeaks::list(const std::string&, const std::optional<std::string>& pool,
                                        Time deadline) {
  Listing out;
  const auto add = [&](std::string_view kind, const std::string& id, const std::string& name,
                       const std::string& region, const std::string& type) {
    const auto marked = read_name(name, kProvider);
    if (!marked || (pool && marked->mark.pool != *pool)) return;
    out.resources.push_back({.kind = std::string(kind),
                             .id = id,
                             .region = region,
                             .pool = marked->mark.pool,
                             .owner = marked->mark.owner,
                             .expires_s = marked->mark.expires_s,
                             .type = type});
  };
  const auto droplets = all_droplets(api_, deadline);
  if (!droplets) {
    return std::unexpected(to_error(droplets.error(), "DigitalOcean: listing droplets"));
  }
  for (const Droplet& one : *droplets) add("instance", one.id, one.name, one.region, one.size);
  DropletResources resources(api_);
  for (SideResourceKind* const kind : resources.kinds()) {
    const auto found = kind->list(deadline);
    if (!found)
      return std::unexpected(to_error(found.error(), "DigitalOcean: listing what is left"));
    for (const SideResource& one : *found) add(kind->kind(), one.id, one.name, "", "");
  }
  return out;
}

}  // namespace

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  auto access = find_access(world, {.name = kProvider});
  if (!access) return fail(access);
  DigitalOceanLeaks leaks(world, std::move(access->account));
  return sweep_account(world, leaks, options, tell, deadline);
}

}  // namespace skyward::provider::digital_ocean
