#pragma once

// What a cloud must implement to rent machines through renting.h. Two parts: a RentedCloud is the
// account there, with its offers and what any pool has there; a RentedSite is for one pool that
// this process opens: where its machines may be, and what they need.
//
// Everything here blocks, and is called on one thread at a time unless marked.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/first_boot.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/pool_machines.h"
#include "skyward/provider/provider.h"
#include "skyward/provider/ssh/command.h"

namespace skyward::provider {

// What all machines of one launch have in common.
struct LaunchTerms {
  FirstBoot boot{};
  std::optional<double> most_hourly{};  // dollars, of one machine
  Tags tags{};
};

// How ssh reaches a machine.
struct SshRoute {
  SshTarget target{};
  std::string proxy_command{};                  // SshOptions
  std::vector<std::string> permanent_errors{};  // Connection, besides those of ssh itself
  std::string silent_hint{};  // what else may be wrong when the machine does not answer
};

class RentedSite {
 public:
  virtual ~RentedSite() = default;

  virtual std::string region() const = 0;
  // In the order of trying.
  virtual const std::vector<LaunchTarget>& places() const = 0;
  // Whose credentials these are: the mark on what the pool makes.
  virtual std::string owner() const = 0;
  // What another process needs to reach the same account again. No secrets.
  virtual std::map<std::string, std::string> way_back() const = 0;
  // Seconds since 1970 by the cloud's clock: with ours, if it is wrong, machines would terminate at
  // boot, and other computers would terminate machines in use.
  virtual std::int64_t wall_s() const = 0;
  // When the credentials end and nothing renews them, by the same clock; empty: not as far as is
  // known.
  virtual std::optional<std::int64_t> credentials_end_s() const { return std::nullopt; }
  // The user who logs in on its machines.
  virtual std::string user() const = 0;

  // Creates what machines need before they can be launched: a firewall, a key. Each resource is in
  // the book before it is requested. After a failure, RentedCloud::clear() removes what there is.
  virtual Status furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                         Time deadline) = 0;
  // Updates what may have changed: this computer's address, say. Called before each launch but the
  // first, and by tend().
  virtual Status refresh(Time) { return {}; }
  // Machines of the pool, launched on these terms; makes what this launch alone needs, a script
  // say, like furnish(). The site outlives it.
  virtual Result<std::unique_ptr<MachineApi>> machine_api(PoolBook& book, const LaunchTerms& terms,
                                                          Time deadline) = 0;

  // How the launch with the last machine_api() ended. After a failure, what it alone needed may go.
  virtual void on_launched(const std::vector<MachineStatus>&) {}
  virtual void on_launch_failed(Time) {}
  virtual void on_terminate(const std::vector<std::string>&) {}
  // Whether its machines cost money by the time that passes here; a simulated cloud's flies.
  virtual bool keeps_our_time() const { return true; }
  // Provider::charges(). May be asked for machines of failed launches, too, and need not know them.
  virtual Result<std::vector<Charge>> charges(const std::vector<std::string>&, Time) {
    return std::vector<Charge>{};
  }

  // From any thread, both.
  virtual SshRoute route_to(const Instance& instance) const = 0;
  // Why the connection to an instance failed, if the reason is not ssh.
  virtual std::optional<Error> explain(const Instance&, const Error&) const { return {}; }
};

// What a pool has at a cloud, whoever opened it; found by its Cluster alone.
class PoolResources {
 public:
  virtual ~PoolResources() = default;

  // Its machines: to find and to end them.
  virtual std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) = 0;
  // Removes what it has besides machines, and marks it as gone in the book. Returns what cannot be
  // removed yet and costs nothing; that stays in the book.
  virtual Result<std::vector<std::string>> clear(const Cluster& cluster, PoolBook& book,
                                                 Time deadline) = 0;
};

class RentedCloud : public PoolResources {
 public:
  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;
  // Whether machines are reached by ssh, with keys of their pool, and get a copy of the image. Else
  // the provider around the one of renting.h answers connection() and bootstrap().
  virtual bool by_ssh() const { return true; }
  // Whether a process beside this one terminates the machines when this one is gone (reaping.h).
  virtual bool needs_reaper() const { return !capabilities().stop_ends_billing; }
  // Whether most types have no spot machines at all. Where the type that a pool gets has none,
  // spot= is ignored, and the pool gets machines on demand.
  virtual bool has_few_spot_types() const { return false; }
  // Provider::check(), without what holds at every cloud.
  virtual Status check(const PoolSpec&) { return {}; }
  virtual Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) = 0;
  virtual Result<std::vector<Offer>> catalogue(Time deadline) = 0;
  // A pool could not be prepared or launched with an offer of that region.
  virtual void note_failure(const Error&, const std::string&) {}

  // Where the pool's machines may be. Creates nothing; may remove what the ledger says earlier
  // pools of this computer left behind.
  virtual Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                        Ledger& ledger, Time deadline) = 0;
};

}  // namespace skyward::provider
