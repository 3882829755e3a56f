#pragma once

// The interface of a cloud: its verbs and capabilities. The engine knows clouds only through it.
//
// Verbs take a deadline and block; the engine's loop calls them on a blocking thread, one at a time
// per provider object. A verb that fails leaves nothing behind that its result does not name. What
// is "on the loop" must not block, and may be called while a verb runs. provider/table.cc lists the
// clouds.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::io {
class FileDescriptor;
}

namespace skyward::provider {

// Plain facts about a cloud.
struct Capabilities {
  bool spot = false;
  // Nodes reach each other at their instances' addresses, and nobody else reaches them there:
  // frameworks trust whoever calls.
  bool private_network = false;
  bool open_network = false;  // they do, and so does the internet: only agents may talk there
  // Connections are Unix sockets on this machine: memory can be passed by descriptor.
  bool descriptors = false;
  bool root = true;          // packages can be installed with apt
  bool fuse = true;          // volumes can be mounted
  bool splits_gpus = false;  // nodes may split their GPUs into partitions
  bool real_devices = true;  // its machines have the devices that their offers name
  bool strangers = false;    // its machines are in the hands of people nobody vouches for
  // A machine can end its own cost from inside: by powering off, or with its own key.
  bool stop_ends_billing = false;
  // Where the agent finds preemption notices: "ec2" (the machine's metadata service), "file:" and a
  // path (a file that appears in the agent's directory). Empty: there are none.
  std::string preemption{};
  // How long provision() may take, until its machines run.
  Duration provision_timeout = kProvisionTimeout;
  // From the provisioning of an instance to the first message of its agent: boot, login, upload.
  Duration greet_timeout = std::chrono::seconds(30);
  // How time is billed, for offers without rules of their own.
  BillingRules billing{};
  double clock_rate = 1;  // seconds of billing_time() in one of ours
  // How often to call charges(). Zero: never.
  Duration charges_interval{};
  // How often to call tend(). Zero: never.
  Duration tend_interval{};
  // Whether to call it, too, when the connection to a node breaks, or is not re-established.
  bool tends_connections = false;
  // All nodes are reached through one gateway (a login node, an API server). It may be down for
  // minutes, and what it refuses says nothing about a node.
  bool gateway = false;
};

// A file that is copied to a node before anything runs there, and kept as files/<sha256> in the
// node's cache, executable.
struct Upload {
  std::string path{};
  std::string sha256{};  // 64 hex digits
  std::uint64_t size = 0;
  // A command for the node's shell, without single quotes: where it succeeds, the file is not sent.
  std::string unless{};
  // Open, if there: a node that joins weeks later needs it, and caches forget files.
  std::shared_ptr<const io::FileDescriptor> file{};

  bool operator==(const Upload&) const = default;
};

// How to reach an agent: a command with stdin and stdout, started by the engine.
//
// Two kinds. On this machine, `command` is the agent itself and ends with its connection. With
// `shell`, the command takes one more argument, a line for a shell on the node: {"ssh", "host"},
// {"sh", "-c"}, {"podman", "exec", "-i", "c1", "sh", "-c"}. Through it the engine uploads one of
// `agents` if the node lacks it, and talks to a daemon that outlives the command: when the command
// ends or falls silent, the engine runs it again and nothing is lost.
struct Connection {
  std::vector<std::string> command{};
  std::vector<std::pair<std::string, std::string>> environment{};  // of the command, here
  std::string directory{};                                         // of the command, here
  bool shell = false;
  // With `shell`: the machine runs already, so a first failure to reach it is reported.
  bool stands = false;
  // With `shell`: the skyward-agents on this machine, one per architecture; the node's is uploaded.
  std::vector<std::string> agents{};
  std::vector<Upload> uploads{};  // with `shell`: what its bootstrap and workers read
  // With `shell`: text on the command's standard error after which a retry is pointless ("Host key
  // verification failed"). After any other end, the command is retried until the node's deadline.
  std::vector<std::string> permanent_errors{};
  // ... and text that means so only for a node that was never reached ("Connection refused"): one
  // that was may answer again.
  std::vector<std::string> hopeless_errors{};
};

// Turns a bare instance into the image: a bash script that reports each finished step by a line on
// descriptor 3, and the interpreter that is there afterwards.
struct Bootstrap {
  std::string script{};  // empty: nothing to do
  std::vector<std::pair<std::string, std::string>> environment{};
  std::string python{};
  // argv of a worker, if the program in the pool's spec is not on the node; empty: the spec's.
  std::vector<std::string> worker_command{};
  std::string directory{};  // working directory of the workers; made if missing
  // A bash script that the agent runs before it exits, when the workers are gone: to unmount, say.
  std::string end_script{};
  // argv that stops the machine's billing. The agent runs it when the pool closes, the lease
  // expires or the pool's lifetime is over: {"shutdown", "-h", "now"}. Empty: the agent only exits.
  std::vector<std::string> end_command{};
};

class Provider {
 public:
  virtual ~Provider() = default;

  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;  // on the loop
  // Refuses a spec that this cloud can never fulfil, before anything is launched. No I/O beyond
  // this machine.
  virtual Status check(const PoolSpec& spec) = 0;

  // Cheapest first. Called again after `exhausted`, a cloud with several regions offers one that
  // has not failed yet.
  virtual Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) = 0;
  // Everything that is for sale, whatever a pool may need; sorted by device, its count, processors
  // and memory.
  virtual Result<std::vector<Offer>> catalogue(Time deadline) { return offers({}, deadline); }
  virtual Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) = 0;
  // Exactly `count` instances, or an error; machines that could not be terminated then stay in the
  // ledger, and teardown() terminates them. `first_node` is the lowest number that they will have.
  virtual Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                                  Time deadline) = 0;
  // The instance as the cloud lists it; empty when it is gone.
  virtual Result<std::optional<Instance>> get_instance(const Cluster& cluster,
                                                       const std::string& id, Time deadline) = 0;
  // When this succeeds, the machines are gone. Unknown ids are no error.
  virtual Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                           Time deadline) = 0;
  // While provision() waits for machines, it calls this again and again: then terminate() may be
  // called, on the same thread. Before any other call; whoever's provision() does not wait ignores
  // it.
  virtual void set_meanwhile(std::function<void()>) {}
  // Hears, in a line for people, what provision() waits for where that may take long. On the thread
  // of the verbs. Before any other call; whoever's provision() has nothing to say ignores it.
  virtual void set_tell(std::function<void(const std::string&)>) {}
  // No more machines are needed: the running call of provision(), and each later one, releases what
  // it created and fails with `cancelled`. From any thread.
  virtual void stop_launching() {}
  // When this succeeds, nothing of the cluster is left: no machines that terminate() failed to
  // terminate, and nothing that they used.
  virtual Status teardown(const Cluster& cluster, Time deadline) = 0;
  // After teardown() failed: the machines, also of failed launches, that are not known to be gone.
  virtual std::vector<std::string> standing(const Cluster&) { return {}; }

  // What only the cloud knows about the bill of these machines, running or terminated: a spot price
  // that has changed, when a machine was preempted. Machines without news are left out. Called
  // every `charges_interval` while the pool is open, and once more when its last machine is gone.
  virtual Result<std::vector<Charge>> charges(const Cluster&, const std::vector<std::string>&,
                                              Time) {
    return std::vector<Charge>{};
  }

  // Looks after what an open pool has besides its machines: the process that terminates them if
  // this program dies, say, or the rule that admits this computer. Called every `tend_interval`
  // between prepare() and teardown(), as terminate() is while machines are waited for. The pool
  // goes on after a failure, and people are told.
  virtual Status tend(const Cluster&, Time) { return {}; }

  // Both on the loop.
  virtual Connection connection(const Cluster& cluster, const Instance& instance) = 0;
  virtual Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) = 0;

  // The clock by which this cloud bills; it goes on while this machine sleeps. From any thread.
  virtual Time billing_time() const;

  // Why the connection to an instance failed, with what is known about this cloud. On the loop.
  virtual Error explain(const Instance&, Error error) { return error; }
};

// Makes the provider that a spec names. Fails with `invalid` on an unknown name, listing the known
// ones.
Result<std::unique_ptr<Provider>> make_provider(const ProviderSpec& spec);

}  // namespace skyward::provider
