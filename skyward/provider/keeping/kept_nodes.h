#pragma once

// A provider whose nodes a keeper keeps (keeping.h): they are machines of the pool's PoolMachines,
// started with a shell script, without an SSH key or a first boot. What differs between such
// providers is what there is, what a pool asks for, and the way to a node.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/machine_provider.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/remote_image.h"
#include "skyward/provider/renting/named_account.h"

namespace skyward::provider {

class KeptNodes : public MachineProvider {
 public:
  std::string_view name() const override { return name_; }
  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override;
  Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                          Time deadline) override;
  Status tend(const Cluster& cluster, Time deadline) override;
  Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) override;

 protected:
  KeptNodes(World world, std::string_view name) : MachineProvider(std::move(world)), name_(name) {}

  virtual NamedAccount& account() = 0;
  // For a shell on the node.
  virtual std::string keeper_directory(const Instance& instance) const = 0;
  // What this provider alone refuses. The agent and the architecture are checked before.
  virtual Status check_wishes(const PoolSpec& spec) = 0;
  // Everything that there is.
  virtual Result<std::vector<Offer>> all_offers(Time deadline) = 0;
  PoolResources& resources() final { return account(); }

  // Launches machines with this mark, which end after `left`.
  using LaunchApi = std::function<std::unique_ptr<MachineApi>(const Mark& mark, Duration left)>;
  // What a pool is opened with.
  struct Opening {
    SweepAccount user{};
    std::map<std::string, std::string> way_back{};  // for the ledger, beside the user
    std::string zone{};                             // where launches are
    bool queues = false;  // nodes may wait for longer than the pool's lifetime
    LaunchApi launch_api{};
  };
  // What prepare() does when it knows that.
  Result<Cluster> open_pool(const PoolSpec& spec, const Offer& offer, Opening opening);

  // What every connection to a node has.
  Connection connection_by(const Cluster& cluster, std::vector<std::string> command);
  // A line for people, unless it was the last one, a moment ago. `about`: which lines are the same
  // one, where what they say changes all the time; empty: those that say the same.
  void tell_once(const std::string& line, const std::string& about = {});

 private:
  // A pool that this process has open.
  struct Plan {
    std::vector<std::string> agents{};
    RemoteImage image{};
    Mark mark{};
    std::string zone{};
    Time ends{};  // its machines, by time_with_sleep()
    LaunchApi launch_api{};
    PoolDirectory directory{};
  };
  struct Told {
    std::string about{};
    Time at{};
  };

  void forget(const Cluster& cluster) override;
  // The pool has to be open, and mutex_ held while the plan is read.
  const Plan& plan_of(const Cluster& cluster) const;

  const std::string name_;
  Told told_;
  // connection() is asked while a verb runs. Verbs alone change the plans.
  std::mutex mutex_;
  std::map<std::string, Plan> plans_;  // by cluster id
};

}  // namespace skyward::provider
