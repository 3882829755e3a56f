#pragma once

// An account at a cloud where names carry the marks: everything that any pool has there, the sweep
// of it, and what such clouds and the sites of their pools have in common. One listing shows the
// whole account.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/renting/named_machines.h"
#include "skyward/provider/renting/side_resources.h"
#include "skyward/provider/renting/sweeping.h"

namespace skyward::provider {

class NamedAccount : public PoolResources {
 public:
  virtual std::string_view provider() const = 0;  // "digital_ocean"
  virtual std::string_view cloud() const = 0;     // as messages name it: "DigitalOcean"
  virtual bool machines_end_themselves() const { return false; }  // as LeakSource has it
  virtual Result<SweepAccount> sign_in(Time deadline) = 0;
  // Every machine, whosever.
  virtual ApiResult<std::vector<NamedMachine>> machines(Time deadline) = 0;
  // What pools have beside machines, in the order in which it can be removed.
  virtual std::vector<SideResourceKind*> kinds() = 0;

  Result<std::vector<std::string>> clear(const Cluster&, PoolBook& book, Time deadline) override {
    return remove_resources(cloud(), provider(), book, kinds(), deadline);
  }
};

// Such a cloud, where machines are rented.
class NamedCloud : public RentedCloud {
 public:
  void note_failure(const Error& error, const std::string& region) override {
    empty_regions_.note(error, region);
  }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return account().machine_api(cluster);
  }
  Result<std::vector<std::string>> clear(const Cluster& cluster, PoolBook& book,
                                         Time deadline) override {
    return account().clear(cluster, book, deadline);
  }

 protected:
  virtual NamedAccount& account() = 0;
  // The result of offers(): what fits, or why nothing does. `where`: "Verda, FIN-01"; `region`:
  // what the cloud calls one.
  Result<std::vector<Offer>> ranked(Result<std::vector<Offer>> found, std::string_view where,
                                    std::string_view region);

  std::vector<Offer> ranked_;  // of the last offers()
  EmptyRegions empty_regions_;
};

// One pool at such a cloud. Its machines are reached as root at their public addresses.
class NamedSite : public RentedSite {
 public:
  std::string region() const override { return places_.front().zone; }
  const std::vector<LaunchTarget>& places() const override { return places_; }
  std::string owner() const override { return account_.owner; }
  std::map<std::string, std::string> way_back() const override {
    return {{"account", account_.account}};
  }
  std::string user() const override { return "root"; }
  // Nothing, where each launch brings all that its machines need.
  Status furnish(PoolBook&, const Mark& mark, const std::string&, Time) override {
    mark_ = mark;
    return {};
  }
  SshRoute route_to(const Instance& instance) const override {
    return {.target = {.host = instance.public_ip.value_or(instance.private_ip),
                       .user = user(),
                       .port = instance.ssh_port}};
  }

 protected:
  // `places`: at least one, all of one region.
  NamedSite(SweepAccount account, std::vector<LaunchTarget> places)
      : account_(std::move(account)), places_(std::move(places)) {
    SKYWARD_CHECK(!places_.empty(), "a pool without a place for its machines");
  }

  Mark mark_{};  // of the pool, from furnish() on

 private:
  const SweepAccount account_;
  const std::vector<LaunchTarget> places_;
};

Status sweep_named(const World& world, NamedAccount& account, const SweepOptions& options,
                   const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider
