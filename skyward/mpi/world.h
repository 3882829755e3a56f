#pragma once

// One MPI world over all workers, for the length of a call, as one worker sees it.
//
// Worker 0 runs MPI's own launcher. Where that would run ssh, it runs a script which notes the
// command line. Worker 0 tells the others that line when they meet, and each starts MPI's daemon
// for its node as a child. The daemon starts the ranks; each takes the call from here, through a
// Unix socket, and hands its answer back.
//
// The line comes over the nodes' own network, so it is signed with a secret that came to the
// workers with the function, and nothing but a daemon of MPI is started.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"
#include "skyward/mpi/plan.h"
#include "skyward/spec/topology.h"

namespace skyward::mpi {

struct WorldOrder {
  InstanceInfo place{};
  std::string name{};  // of the function
  Duration timeout{};  // for the workers to meet, and for MPI to start
  int ranks_per_node = 1;
  std::string implementation{};  // a kind of MPI; empty: any
  std::string secret{};
  std::vector<std::string> rank{};  // the command that is a rank, on this node
  std::vector<int> streams{};       // output and error of the ranks
  SharedBytes call{};
};

// What a rank sends after the length of its answer.
struct RankHead {
  std::uint32_t raised = 0;  // 0 or 1
  std::uint32_t rank = 0;
};

struct WorldAnswer {
  bool raised = false;               // `ranks` is what one of them threw
  std::vector<SharedBytes> ranks{};  // by rank
};

// The MPI of this node: the one that is asked for, else Open MPI if it is there, else MPICH.
Result<Launcher> find_launcher(const std::string& wanted);

class MpiWorld {
 public:
  // `on_end` is called once, on the loop thread, when nothing of the world is left here.
  static std::unique_ptr<MpiWorld> begin(io::EventLoop& loop, WorldOrder order,
                                         std::function<void(Result<WorldAnswer>)> on_end);
  virtual ~MpiWorld() = default;
  // Ends it early.
  virtual void cancel() = 0;
};

}  // namespace skyward::mpi
