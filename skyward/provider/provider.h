#pragma once

// The contract of a cloud: six verbs and a sheet of facts. The engine knows clouds only through
// this page.
//
// Verbs block; the engine's loop calls them on a blocking thread, one at a time per provider
// object, each with a deadline. A verb that fails half-way leaves nothing behind that its result
// does not name. provider/table.cc lists the clouds.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// Plain facts about a cloud.
struct Capabilities {
  bool spot = false;
  bool private_network = true;  // nodes reach each other by the addresses that instances tell
  bool descriptors = false;     // connections are Unix sockets on this very machine: memory can be
                                // passed by descriptor
  bool root = true;             // packages can be installed with apt
  bool stop_ends_billing = true;  // powering a machine off from inside ends its cost
};

// How to reach an agent: a command with stdin and stdout, started by the engine.
struct Connection {
  std::vector<std::string> command{};
  std::vector<std::pair<std::string, std::string>> environment{};
  std::string directory{};
};

// What makes a bare instance into the image: a bash script that reports each finished step by a
// line on descriptor 3, and the interpreter that stands there afterwards.
struct Bootstrap {
  std::string script{};  // empty: nothing to do
  std::vector<std::pair<std::string, std::string>> environment{};
  std::string python{};
  std::string directory{};  // working directory of the workers
};

class Provider {
 public:
  virtual ~Provider() = default;

  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;
  // Refuses a spec that this cloud can never fulfil, before anything is bought. No I/O beyond this
  // machine.
  virtual Status check(const PoolSpec& spec) = 0;

  // Cheapest first.
  virtual Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) = 0;
  virtual Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) = 0;
  // Exactly `count` instances or an error with nothing left behind. `first_node` is the lowest rank
  // they will fill.
  virtual Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                                  Time deadline) = 0;
  // The instance as the cloud sees it; empty when it is gone.
  virtual Result<std::optional<Instance>> get_instance(const Cluster& cluster,
                                                       const std::string& id, Time deadline) = 0;
  // Gone when this returns without error. Unknown ids are no error.
  virtual Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                           Time deadline) = 0;
  virtual Status teardown(const Cluster& cluster, Time deadline) = 0;

  virtual Connection connection(const Cluster& cluster, const Instance& instance) = 0;
  virtual Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) = 0;
};

// Makes the provider that a spec names. Fails with `invalid` on an unknown name, listing the known
// ones.
Result<std::unique_ptr<Provider>> make_provider(const ProviderSpec& spec);

}  // namespace skyward::provider
