#pragma once

// What one cloud adds to renting (renting.h), which is the same at every cloud. Two parts: a
// RentedCloud is the account there, what it sells and what any pool has there; a RentedSite is one
// pool that this process opens, where its machines may stand and what they need.
//
// All blocks, and is called on one thread at a time, but for what is marked.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/first_boot.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/provider.h"
#include "skyward/provider/ssh/command.h"
#include "skyward/provider/pool_machines.h"

namespace skyward::provider {

// What all machines of one launch have in common.
struct LaunchTerms {
  FirstBoot boot{};
  std::optional<double> most_hourly{};  // dollars, of one machine
  Tags tags{};
};

// How ssh reaches a machine.
struct SshWay {
  SshTarget target{};
  std::string proxy_command{};                  // SshOptions
  std::vector<std::string> permanent_errors{};  // Connection, besides those of ssh itself
  std::string silent_hint{};  // what else may be wrong when the machine does not answer
};

class RentedSite {
 public:
  virtual ~RentedSite() = default;

  virtual std::string region() const = 0;
  // In the order in which they are tried.
  virtual const std::vector<LaunchTarget>& places() const = 0;
  // Whose credentials these are: the mark on what the pool makes.
  virtual std::string owner() const = 0;
  // What another process needs to know to come back to the same account. No secrets.
  virtual std::map<std::string, std::string> way_back() const = 0;
  // Seconds since 1970 by the cloud's clock: by ours, if it is wrong, machines would end at their
  // boot, and other computers would end machines at work.
  virtual std::int64_t wall_s() const = 0;
  // Who logs in on its machines.
  virtual std::string user() const = 0;

  // Makes what machines need before they can be launched: a firewall, a key. Each thing is in the
  // book before it is asked for. After a failure, RentedCloud::clear() removes what there is.
  virtual Status furnish(PoolBook& book, const Mark& mark, const std::string& login_key,
                         Time deadline) = 0;
  // Before each launch but the first: what may have changed meanwhile, this computer's address say.
  virtual Status refresh(Time) { return {}; }
  // Machines of the pool, launched on these terms. The site outlives it.
  virtual std::unique_ptr<MachineApi> machine_api(const std::string& pool,
                                                  const LaunchTerms& terms) = 0;

  virtual void on_launched(const std::vector<MachineStatus>&) {}
  virtual void on_terminate(const std::vector<std::string>&) {}
  // Provider::charges(), but for machines that were launched in vain.
  virtual Result<std::vector<Charge>> charges(const std::vector<std::string>&, Time) {
    return std::vector<Charge>{};
  }

  // From any thread, both.
  virtual SshWay way_to(const Instance& instance) const = 0;
  // What made the connection to an instance fail, where it was not ssh.
  virtual std::optional<Error> explain(const Instance&, const Error&) const { return {}; }
};

// What a pool has at a cloud, whoever opened it, known from its Cluster alone.
class PoolRemains {
 public:
  virtual ~PoolRemains() = default;

  // Its machines: to find and to end them.
  virtual std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) = 0;
  // Removes what it has beside machines, and strikes it off the book. Returns what stays for a
  // while and costs nothing; it stays in the book.
  virtual Result<std::vector<std::string>> clear(const Cluster& cluster, PoolBook& book,
                                                 Time deadline) = 0;
};

class RentedCloud : public PoolRemains {
 public:
  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;
  // Provider::check(), but for what holds at every cloud.
  virtual Status check(const PoolSpec&) { return {}; }
  virtual Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) = 0;
  virtual Result<std::vector<Offer>> catalogue(Time deadline) = 0;
  // A pool could not be prepared or launched with an offer of that region.
  virtual void note_failure(const Error&, const std::string&) {}

  // Where the pool's machines may stand. Makes nothing; may remove what earlier pools of this
  // computer have left, by the ledger.
  virtual Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                        Ledger& ledger, Time deadline) = 0;
};

}  // namespace skyward::provider
