#include "skyward/provider/fake/account.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/fake/fake.h"

namespace skyward::provider::fake {

namespace {

Resource to_resource(const std::string& kind, const std::string& id, const Tags& tags) {
  Resource resource{.kind = kind,
                    .id = id,
                    .region = kRegion,
                    .pool = value_at(tags, kPoolTag),
                    .owner = value_at(tags, kOwnerTag)};
  const std::string expires = value_at(tags, kExpiresTag);
  std::from_chars(expires.data(), expires.data() + expires.size(), resource.expires_s);
  return resource;
}

class FakeSite final : public RentedSite {
 public:
  FakeSite(Account& account, std::string owner, PoolSpec spec, std::vector<LaunchTarget> places)
      : account_(account),
        owner_(std::move(owner)),
        spec_(std::move(spec)),
        places_(std::move(places)) {}

  std::string region() const override { return kRegion; }
  const std::vector<LaunchTarget>& places() const override { return places_; }
  std::string owner() const override { return owner_; }
  std::map<std::string, std::string> way_back() const override { return {}; }
  std::int64_t wall_s() const override { return account_.world().wall_s(); }
  std::string user() const override { return {}; }
  Status furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                 Time deadline) override;
  Result<std::unique_ptr<MachineApi>> machine_api(PoolBook& book, const LaunchTerms& terms,
                                                  Time deadline) override;
  bool keeps_our_time() const override { return false; }
  Result<std::vector<Charge>> charges(const std::vector<std::string>& ids, Time) override;
  SshRoute route_to(const Instance&) const override { return {}; }

 private:
  Account& account_;
  const std::string owner_;
  const PoolSpec spec_;
  const std::vector<LaunchTarget> places_;
  Tags tags_{};
  std::string group_{}, key_{};
};

// What machines need before they can be launched.
Status FakeSite::furnish(PoolBook& book, const Mark& mark, const std::string&, Time deadline) {
  tags_ = {{kPoolTag, mark.pool},
           {kOwnerTag, mark.owner},
           {kExpiresTag, std::to_string(mark.expires_s)}};
  const auto key = make_item(account_.client(), book, "key_pair", tags_, deadline);
  if (!key) return fail(key);
  const auto group = make_item(account_.client(), book, "security_group", tags_, deadline);
  if (!group) return fail(group);
  key_ = *key;
  group_ = *group;
  return {};
}

Result<std::unique_ptr<MachineApi>> FakeSite::machine_api(PoolBook& book, const LaunchTerms& terms,
                                                          Time) {
  const EndTimer& timer = terms.boot.end_timer;
  LaunchRequest common;
  common.group = group_;
  common.key = key_;
  if (terms.most_hourly) common.most_hourly = to_micro_dollars(*terms.most_hourly);
  // Our clock ends the pool. Where the cloud's clock runs ahead of it, the machines end it.
  common.lifetime = spec_.timeout > Duration{} ? spec_.timeout : timer.lifetime;
  common.unclaimed = timer.unclaimed;
  common.tags = tags_;
  return std::make_unique<Rental>(account_.client(), book.pool(), std::move(common));
}

// Of machines that have ended: how long they stood by the cloud's clock. Until then the pool's own
// meter runs by ours, and would take both for one.
Result<std::vector<Charge>> FakeSite::charges(const std::vector<std::string>& ids, Time) {
  return account_.client().cloud().ask([&](Cloud& cloud, Time now) {
    std::vector<Charge> out;
    for (const std::string& id : ids) {
      std::vector<Charge> steps = cloud.charges(now, id);
      if (!steps.empty() && steps.front().ended) std::ranges::move(steps, std::back_inserter(out));
    }
    return out;
  });
}

}  // namespace

Result<std::vector<std::string>> Account::clear(PoolBook& book, Time deadline) {
  if (Status removed = remove_items(client_, book, deadline); !removed) return fail(removed);
  return std::vector<std::string>{};
}

Result<std::vector<Offer>> FakeRentals::offers(const PoolSpec& spec, Time deadline) {
  const auto types = account_.client().call(
      deadline, [](Cloud& cloud, Time now) { return cloud.list_types(now); });
  if (!types) return std::unexpected(to_error(types.error(), "ListTypes"));
  std::vector<Offer> all;
  for (const MachineType& type : *types) {
    if (!spec.machine.empty() && spec.machine != type.name) continue;
    all.push_back({.instance_type = type.name,
                   .region = kRegion,
                   .cpus = type.cpus,
                   .memory_gb = type.memory_gb,
                   .accelerator = type.accelerator,
                   .accelerator_count = type.accelerator.empty() ? 0.0 : type.devices,
                   .accelerator_memory_gb = type.accelerator_memory_gb,
                   .price_on_demand = to_dollars(type.on_demand),
                   .price_spot = to_dollars(type.spot)});
  }
  auto found = fitting_offers(all, spec);
  if (!found && !spec.machine.empty()) {
    std::vector<std::string_view> names;
    for (const MachineType& type : *types) names.push_back(type.name);
    found.error().hint = fmt::format("it sells {}", fmt::join(names, ", "));
  }
  if (!found) found.error().message.insert(0, "FakeCloud: ");
  if (found) ranked_ = *found;
  return found;
}

Result<std::unique_ptr<RentedSite>> FakeRentals::find_site(const PoolSpec& spec, const Offer& offer,
                                                           Ledger&, Time) {
  const std::vector<std::string> zones =
      account_.client().cloud().ask([](Cloud& cloud, Time) { return cloud.zones(); });
  std::vector<LaunchTarget> places;
  for (const Offer& one : ranked_) {
    if (one.instance_type != offer.instance_type) continue;
    for (const std::string& zone : zones) {
      LaunchTarget place{.type = one.instance_type, .zone = zone};
      place.spot_price = one.price_spot;
      place.on_demand_price = one.price_on_demand;
      places.push_back(std::move(place));
    }
  }
  return std::make_unique<FakeSite>(account_, owner_, spec, std::move(places));
}

Result<Listing> FakeLeaks::list(const std::string&, const std::optional<std::string>& pool,
                                Time deadline) {
  Tags wanted;
  if (pool) wanted[kPoolTag] = *pool;
  Listing out;
  const auto machines = account_.client().call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.list_machines(now, wanted); });
  if (!machines) return std::unexpected(to_error(machines.error(), "ListMachines"));
  for (const Machine& one : *machines) {
    if (one.state == MachineState::ended) out.ended.emplace(one.id, std::nullopt);
    if (one.state >= MachineState::ending) continue;
    out.resources.push_back(to_resource("instance", one.id, one.tags));
    out.resources.back().type = one.type;
  }
  const auto items = account_.client().call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.list_items(now, wanted); });
  if (!items) return std::unexpected(to_error(items.error(), "ListItems"));
  for (const Item& one : *items) {
    out.resources.push_back(to_resource(one.kind, one.id, one.tags));
  }
  return out;
}

Status sweep(const ClientComputer& computer, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  FakeLeaks leaks(computer.cloud, computer.world, computer.owner);
  return sweep_account(computer.world, leaks, options, tell, computer.cloud->there(deadline));
}

}  // namespace skyward::provider::fake
