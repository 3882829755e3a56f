#pragma once

// One rank of an MPI world: a process of the program that calls the function once and hands its
// result to the program of the world (skyward/mpi/world.h).

#include <map>
#include <string>

namespace skyward {

// What a rank is told.
struct RankOrder {
  std::map<std::string, std::string> environment;  // of the worker
  std::string folder;
  std::string symbol;     // of the compute function
  std::string arguments;  // packed

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(environment, folder, symbol, arguments);
  }
};

// For sky::init. In a process that MPI started as a rank it calls the function, and never returns;
// in any other it does nothing.
void run_if_rank();

}  // namespace skyward
