#pragma once

// What a world of MPI needs, decided without any I/O: its hosts, the command line of `mpirun`, and
// the command line of MPI's daemon on each node, which worker 0 tells the others, signed.
//
// `mpirun` wants to start a daemon on each host by ssh. In its place runs a script that notes the
// command line; a worker starts the daemon of its node as a child.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/topology.h"

namespace skyward::mpi {

// An MPI that is installed on a node.
struct Launcher {
  std::string kind;     // "openmpi" or "mpich"
  std::string program;  // the path of its mpirun
  std::string version;

  bool is_mpich() const { return kind == "mpich"; }
  std::string daemon() const;  // the program that it runs on each host
};

// A kind of MPI, and the names that its launcher may have.
struct Kind {
  std::string name;
  std::string daemon;
  std::vector<std::string> launchers;
  std::string package;  // of Debian
};
const std::vector<Kind>& kinds();

// "4.1.4" from what a launcher prints with --version; empty where it belongs to another MPI.
std::string version_in(std::string_view printed, std::string_view kind);

// `wanted`: a kind, or empty for any. `has_prted`: this node has the daemon of Open MPI 5.
Error no_launcher(const std::string& wanted, bool has_prted);

bool share_an_address(const InstanceInfo& info);
// At which the other nodes reach this one.
std::string own_address(const InstanceInfo& info);

// Fails with `invalid` where MPI would not know the workers apart. `name`: the function's.
Status require_one_worker_per_host(const InstanceInfo& info, const std::string& name);
// Fails with `invalid` where the workers have different MPIs; by rank.
Status require_one_mpi(const std::vector<std::string>& found, const std::string& name);

// A host of MPI for each worker: its address, or a name of its own where nodes are processes of one
// machine.
std::vector<std::string> hosts_of(const InstanceInfo& info);
std::string hosts_file(const std::vector<std::string>& hosts, const Launcher& launcher,
                       int ranks_per_node);

// The smallest network that has the addresses of all nodes: that of their private network, and of
// no container on them. Empty where they have none.
std::string network_of(const InstanceInfo& info);

// What runs where ssh would: it notes the command line for a host in `folder`.
std::string noting_script(const std::string& folder);

struct MpirunPlan {
  std::vector<std::string> command{};
  std::map<std::string, std::string> environment{};  // what the user has set stays
};
// Of `mpirun`. `folder` has the files `hosts` and `ssh`; each rank runs `line` in a shell.
MpirunPlan plan_launch(const InstanceInfo& info, const Launcher& launcher,
                       const std::string& folder, int ranks, const std::string& line, bool is_root);

// What the workers run, as one pattern and a number for each: a large pool's would be long.
struct DaemonLines {
  std::string pattern{};
  std::vector<int> numbers{};  // by worker; negative: that node needs no daemon
  std::string mac{};
};
// What worker 0 signs with, and the others check: it holds for one call, in which each worker has
// thrown in a random word of its own. `secret`: the pool's.
std::string key_of_call(const std::string& secret, const std::vector<std::string>& thrown_in);
// `is_host`: worker 0 needs none, since `mpirun` itself is there. Fails where the lines differ in
// more than their number.
Result<DaemonLines> sign(const std::vector<std::string>& lines, const std::string& kind,
                         bool is_host, const std::string& key);
// The command line of this worker's daemon; empty where it needs none. Fails if the lines are not
// from worker 0, or would run anything else.
Result<std::vector<std::string>> daemon_command(const DaemonLines& lines, const std::string& kind,
                                                int worker, const std::string& key);

// The words that a POSIX shell makes of a line without variables and operators. Fails where a quote
// does not end.
Result<std::vector<std::string>> shell_words(std::string_view line);

}  // namespace skyward::mpi
