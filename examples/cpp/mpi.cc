// MPI: one world of ranks over all nodes integrates a function, two ranks on each node. A rank is
// a process of this program, which MPI starts; it sees MPI_COMM_WORLD as under mpirun.

#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <numbers>

#include "skyward/skyward.h"

// The area under 4 / (1 + x²) from 0 to 1; each rank adds up its part of the strips.
double integrate(long strips) {
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double mine = 0;
  for (long i = rank; i < strips; i += size) {
    const double x = (static_cast<double>(i) + 0.5) / static_cast<double>(strips);
    mine += 4.0 / (1.0 + x * x) / static_cast<double>(strips);
  }
  double total = 0;
  MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return total;
}
constexpr auto pi = sky::distributed::mpi<integrate>({.ranks_per_node = 2});

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 2});
  int ranks = 0;
  for (const std::vector<double>& of_node : sky::broadcast(pi(1'000'000), pool)) {
    for (const double total : of_node) {
      std::printf("rank %d: %.6f\n", ranks++, total);
      if (std::abs(total - std::numbers::pi) > 1e-9) return 1;
    }
  }
  return ranks == 4 ? 0 : 1;
}
