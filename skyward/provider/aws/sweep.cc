#include "skyward/provider/aws/sweep.h"

#include <fmt/format.h>

#include <utility>

#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/fleet.h"
#include "skyward/provider/aws/groups.h"
#include "skyward/provider/renting/sweeping.h"
#include "skyward/provider/rest/exchange.h"

namespace skyward::provider::aws {

namespace {

class AwsLeaks final : public LeakSource {
 public:
  explicit AwsLeaks(Client home) : home_(std::move(home)) {}

  std::string_view name() const override { return "aws"; }
  std::string_view vendor() const override { return "Amazon"; }
  bool machines_end_themselves() const override { return true; }
  Result<SweepAccount> sign_in(Time deadline) override;
  Result<std::vector<std::string>> regions(Time deadline) override;
  Result<Listing> list(const std::string& region, const std::optional<std::string>& pool,
                       Time deadline) override;
  bool is_loose(const Resource& resource) const override { return resource.kind == "volume"; }
  Status remove(const Resource& resource, Time deadline) override;
  std::string way_to_account(const LedgerPool& pool) const override;

  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return std::make_unique<Fleet>(client_in(cluster.region), cluster.id);
  }
  Result<std::vector<std::string>> clear(const Cluster& cluster, PoolBook& book,
                                         Time deadline) override {
    return remove_groups(client_in(cluster.region), book, deadline);
  }

 private:
  Client& client_in(const std::string& region) {
    return regions_.try_emplace(region, home_.in_region(region)).first->second;
  }

  Client home_;
  std::map<std::string, Client> regions_;
};

Result<SweepAccount> AwsLeaks::sign_in(Time deadline) {
  const auto caller = find_caller(home_, deadline);
  if (!caller) return fail(caller);
  return SweepAccount{.owner = caller->owner,
                      .account = caller->account,
                      .home_region = home_.region(),
                      .clock_ahead_s = home_.clock_ahead_s()};
}

Result<std::vector<std::string>> AwsLeaks::regions(Time deadline) {
  const auto all = Ec2Api(home_).describe_regions(deadline);
  if (!all) return std::unexpected(to_error(all.error(), "EC2 DescribeRegions"));
  return *all;
}

Result<Listing> AwsLeaks::list(const std::string& region, const std::optional<std::string>& pool,
                               Time deadline) {
  Client& client = client_in(region);
  Ec2Api api(client);
  std::vector<Filter> filters = {{fmt::format("tag:{}", kManagedTag), {"true"}}};
  if (pool) filters.push_back({fmt::format("tag:{}", kPoolTag), {*pool}});
  Listing out;
  const auto add = [&](const char* kind, const std::string& id, const Tags& tags,
                       const std::string& type) {
    const auto mark = read_mark(tags);
    if (!mark) return;  // somebody else's, whatever it is called
    out.resources.push_back({.kind = kind,
                             .id = id,
                             .region = client.region(),
                             .pool = mark->pool,
                             .owner = mark->owner,
                             .expires_s = mark->expires_s,
                             .type = type});
  };
  const auto failed = [&](const ApiError& error, const char* action) {
    return std::unexpected(to_error(error, fmt::format("EC2 {} in {}", action, client.region())));
  };
  const auto instances = api.describe_instances(filters, deadline);
  if (!instances) return failed(instances.error(), "DescribeInstances");
  const std::int64_t ahead_s = client.clock_ahead_s();
  for (const Ec2Instance& one : *instances) {
    if (is_gone(one)) {
      out.ended[one.id] =
          one.ended_s.transform([&](std::int64_t there_s) { return there_s - ahead_s; });
    } else {
      add("instance", one.id, one.tags, one.type);
    }
  }
  const auto volumes = api.describe_volumes(filters, deadline);
  if (!volumes) return failed(volumes.error(), "DescribeVolumes");
  for (const EbsVolume& volume : *volumes) {
    // The ones in use go with their machines.
    if (volume.state == "available") add("volume", volume.id, volume.tags, "");
  }
  const auto groups = api.describe_security_groups(filters, deadline);
  if (!groups) return failed(groups.error(), "DescribeSecurityGroups");
  for (const SecurityGroup& group : *groups) add("security_group", group.id, group.tags, "");
  return out;
}

Status AwsLeaks::remove(const Resource& resource, Time deadline) {
  const auto done = Ec2Api(client_in(resource.region)).delete_volume(resource.id, deadline);
  if (done || done.error().code == "InvalidVolume.NotFound") return {};
  return std::unexpected(to_error(done.error(), "EC2 DeleteVolume " + resource.id));
}

std::string AwsLeaks::way_to_account(const LedgerPool& pool) const {
  const std::string profile = pool.setting("profile");
  return profile.empty() ? "with the others, run skyward gc"
                         : fmt::format("run AWS_PROFILE={} skyward gc", profile);
}

}  // namespace

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  auto configuration = load_configuration(world, "");
  if (!configuration) return fail(configuration);
  std::string region = find_region(world, *configuration, options.home_region);
  if (!options.regions.empty()) region = options.regions.front();
  if (region.empty()) region = "us-east-1";
  AwsLeaks leaks(Client(world, *std::move(configuration), region));
  return sweep_account(world, leaks, options, tell, deadline);
}

}  // namespace skyward::provider::aws
