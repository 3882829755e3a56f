#pragma once

// Shared by the providers whose nodes are PoolMachines, rented (renting/) or kept (keeping/): the
// ledger, a book for each pool, and the verbs that need no more.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/held_ledger.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/pool_machines.h"
#include "skyward/provider/provider.h"
#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

class MachineProvider : public Provider {
 public:
  Status check(const PoolSpec& spec) override;  // agent, architecture, partitions
  Result<std::optional<Instance>> get_instance(const Cluster& cluster, const std::string& id,
                                               Time deadline) override;
  Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                   Time deadline) override;
  void set_meanwhile(std::function<void()> run) override { world_.meanwhile = std::move(run); }
  void set_tell(std::function<void(const std::string&)> tell) override {
    world_.tell = std::move(tell);
  }
  void stop_launching() override { world_.launching.request_stop(); }
  Status teardown(const Cluster& cluster, Time deadline) override;
  std::vector<std::string> standing(const Cluster& cluster) override;

 protected:
  explicit MachineProvider(World world) : world_(std::move(world)) {}

  virtual PoolResources& resources() = 0;
  // To look at the machines of a pool and to terminate them.
  virtual Result<std::unique_ptr<MachineApi>> machine_api(const Cluster& cluster, Time) {
    return resources().machine_api(cluster);
  }
  // The machines of the pool are gone: what the provider knows of it is of no more use.
  virtual void forget(const Cluster& cluster) = 0;

  PoolBook& book_of(const Cluster& cluster);
  void tell(const std::string& line) const {
    if (world_.tell) world_.tell(line);
  }

  // Within this time, a deleted lock is there again, and a reaper that has died is replaced.
  static constexpr Duration kTendInterval = std::chrono::seconds(30);

  // What the ledger stores about a new pool besides the cluster. `settings` has its owner.
  struct Entry {
    std::string job{};
    std::map<std::string, std::string> settings{};
    std::int64_t expires_s = 0;
  };
  Status enter_in_ledger(const Cluster& cluster, Entry entry);

  // How long machines live: longer than their pool may, for boot and teardown. A pool may be
  // without a limit; its machines end when their agent hears nothing for the lease.
  static Duration lifetime_of(const PoolSpec& spec);
  static constexpr Duration kLifeGrace = std::chrono::minutes(15);  // ... by so much

  Status with_end(Status ended);

  World world_;
  HeldLedger ledger_{[this] { return open_ledger(world_); },
                     [this] { return ledger_number(world_); }};

 private:
  std::map<std::string, PoolBook> books_;  // by cluster id
};

}  // namespace skyward::provider
