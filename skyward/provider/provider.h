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
#include "skyward/spec/cost.h"
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
  // How machines are told that they will be preempted, so that the agent listens for it: "ec2"
  // (the metadata service of the machine), "file:" and a path (a file that appears where the agent
  // stands). Empty: they are not.
  std::string preemption{};
  // From the instance being told to the first word of its agent: boot, login, upload.
  Duration greet_timeout = std::chrono::seconds(30);
  // How time is counted, where an offer does not say so itself.
  BillingRules billing{};
  double clock_rate = 1;  // of billing_time(): seconds of it in one of ours
  // How often charges() may have news. Zero: never, prices are as they were told, and it is not
  // asked.
  Duration charges_interval{};
};

// A file of this machine that a node gets before anything runs there, once: it is kept as
// files/<sha256> in the node's cache, executable.
struct Upload {
  std::string path{};
  std::string sha256{};  // 64 hex digits

  bool operator==(const Upload&) const = default;
};

// How to reach an agent: a command with stdin and stdout, started by the engine.
//
// Two kinds. Where the agent is at hand, `command` is the agent itself and ends with its
// connection. With `shell`, the command takes one more argument, a line that a shell on the node
// shall run: {"ssh", "host"}, {"sh", "-c"}, {"podman", "exec", "-i", "c1", "sh", "-c"}. Through
// it the engine uploads one of `agents` when the node does not have it, and reaches a daemon that
// outlives the command: when the command ends or falls silent, the engine runs it again and nothing
// is lost.
struct Connection {
  std::vector<std::string> command{};
  std::vector<std::pair<std::string, std::string>> environment{};  // of the command, here
  std::string directory{};                                         // of the command, here
  bool shell = false;
  bool stands = false;  // with `shell`: the machine does not boot, so that not to reach it
                        // at once is worth a word
  // With `shell`: the skyward-agents on this machine, of which that for the node is uploaded.
  std::vector<std::string> agents{};
  std::vector<Upload> uploads{};  // with `shell`: what its bootstrap and workers read
  // With `shell`: words of the command's standard error after which trying again is useless
  // ("Host key verification failed"). Everything else that ends the command is tried again until
  // the node's time is over.
  std::vector<std::string> permanent_errors{};
  // ... and the same for a node that was never reached ("Connection refused"): one that was may
  // answer again.
  std::vector<std::string> hopeless_errors{};
};

// What makes a bare instance into the image: a bash script that reports each finished step by a
// line on descriptor 3, and the interpreter that stands there afterwards.
struct Bootstrap {
  std::string script{};  // empty: nothing to do
  std::vector<std::pair<std::string, std::string>> environment{};
  std::string python{};
  // argv of a worker, where the program of the pool's spec is not on the node; empty: the spec's.
  std::vector<std::string> worker_command{};
  std::string directory{};  // working directory of the workers; made if missing
  // A bash script that the agent runs at its end, when the workers are gone: unmounting, say.
  std::string end_script{};
  // argv that ends the machine's cost, run by the agent when the pool is closed, the driver has
  // been silent for its lease or the pool's lifetime is over: {"shutdown", "-h", "now"}. Empty: the
  // agent only ends.
  std::vector<std::string> end_command{};
};

class Provider {
 public:
  virtual ~Provider() = default;

  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;
  // Refuses a spec that this cloud can never fulfil, before anything is bought. No I/O beyond this
  // machine.
  virtual Status check(const PoolSpec& spec) = 0;

  // Cheapest first. Asked again after `exhausted`, a cloud with several regions offers one that
  // has not failed yet.
  virtual Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) = 0;
  // Everything that is for sale, whatever a pool may need; by device, its count, processors and
  // memory.
  virtual Result<std::vector<Offer>> catalogue(Time deadline) { return offers({}, deadline); }
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
  // No machine is wanted any more: offers(), prepare() and provision(), the one under way and those
  // to come, end with `cancelled` as soon as they have released what they made. From any thread.
  virtual void stop_buying() {}
  // Nothing of the cluster is left when this returns without error: neither machines that
  // terminate() could not end nor what they used.
  virtual Status teardown(const Cluster& cluster, Time deadline) = 0;

  // What the cloud knows of the bills of these machines, also of ended ones, where it knows more
  // than is seen from here: a spot price that has changed, when a machine was preempted. Machines
  // that are left out are as before. Asked at each `charges_interval` while the pool is open, and
  // once more when its last machine is gone.
  virtual Result<std::vector<Charge>> charges(const Cluster&, const std::vector<std::string>&,
                                              Time) {
    return std::vector<Charge>{};
  }

  virtual Connection connection(const Cluster& cluster, const Instance& instance) = 0;
  virtual Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) = 0;

  // The time by which this cloud bills; it goes on while this machine sleeps. From any thread.
  virtual Time billing_time() const;

  // What made the connection to an instance fail, told as someone who knows this cloud would.
  virtual Error explain(const Instance&, Error error) { return error; }
};

// Makes the provider that a spec names. Fails with `invalid` on an unknown name, listing the known
// ones.
Result<std::unique_ptr<Provider>> make_provider(const ProviderSpec& spec);

}  // namespace skyward::provider
