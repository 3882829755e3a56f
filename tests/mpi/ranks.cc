// sky::distributed::mpi, for python/engines_tests/mpi_cpp_test.py:
//
//   mpi_ranks openmpi|mpich sum|several|throws|killed|cancelled
//
// One program for both MPIs, built where neither is: it loads the library when a rank begins.

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/skyward.h"

namespace {

// What differs between the two is in handles, which are numbers in one and addresses in the other.
using HandleOfMpi = std::uintptr_t;

struct Mpi {
  explicit Mpi(bool is_mpich)
      : library(dlopen(is_mpich ? "libmpich.so.12" : "libmpi.so.40", RTLD_NOW | RTLD_GLOBAL)) {
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto handle = [&](HandleOfMpi number, const char* name) {
      return is_mpich ? number : reinterpret_cast<HandleOfMpi>(dlsym(library, name));
    };
    world = handle(0x44000000, "ompi_mpi_comm_world");
    double_type = handle(0x4c00080b, "ompi_mpi_double");
    sum = handle(0x58000003, "ompi_mpi_op_sum");
    find<int(int*, char***)>("MPI_Init")(nullptr, nullptr);
    find<int(HandleOfMpi, int*)>("MPI_Comm_rank")(world, &rank);
    find<int(HandleOfMpi, int*)>("MPI_Comm_size")(world, &size);
  }
  double total(double mine) const {
    double all = 0;
    find<int(const void*, void*, int, HandleOfMpi, HandleOfMpi, HandleOfMpi)>("MPI_Allreduce")(
        &mine, &all, 1, double_type, sum, world);
    return all;
  }
  void finalize() const { find<int()>("MPI_Finalize")(); }

  template <typename Signature>
  Signature* find(const char* name) const {
    return reinterpret_cast<Signature*>(dlsym(library, name));
  }

  void* library;
  HandleOfMpi world = 0;
  HandleOfMpi double_type = 0;
  HandleOfMpi sum = 0;
  int rank = -1;
  int size = 0;
};

struct Part {
  int rank = 0;
  int size = 0;
  double total = 0;
  int node = 0;
};

Part add_up(bool is_mpich, const std::vector<double>& values) {
  const Mpi mpi(is_mpich);
  double mine = 0;
  for (std::size_t i = static_cast<std::size_t>(mpi.rank); i < values.size();
       i += static_cast<std::size_t>(mpi.size)) {
    mine += values[i];
  }
  std::cout << "rank " << mpi.rank << " was here" << std::endl;
  const Part part{mpi.rank, mpi.size, mpi.total(mine), sky::instance_info().node};
  mpi.finalize();
  return part;
}

struct NoSuchRow : std::runtime_error {
  using std::runtime_error::runtime_error;
  int row = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(row);
  }
};
const sky::ThrownType<NoSuchRow> no_such_row;

void fail(bool is_mpich) {
  const Mpi mpi(is_mpich);
  if (mpi.rank == 1) {
    NoSuchRow error("no such row");
    error.row = 7;
    throw error;
  }
  mpi.total(1);
  mpi.finalize();
}

void die(bool is_mpich) {
  const Mpi mpi(is_mpich);
  if (mpi.rank == 1) std::abort();
  mpi.total(1);
  mpi.finalize();
}

void hang(bool is_mpich) {
  const Mpi mpi(is_mpich);
  std::cout << "hanging" << std::endl;
  std::promise<void>().get_future().wait();
}

std::vector<double> numbers() {
  std::vector<double> values(20000);  // larger than what travels inside a frame
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

void show(const std::vector<std::vector<Part>>& answers) {
  for (const std::vector<Part>& worker : answers) {
    for (const Part& part : worker) {
      std::printf("%d of %d on node %d: %.0f\n", part.rank, part.size, part.node, part.total);
    }
  }
}

template <auto F>
auto with(std::string_view kind, int ranks = 1) {
  return sky::distributed::mpi<F>({.ranks_per_node = ranks, .implementation = kind});
}

void run(std::string_view kind, std::string_view what, sky::ComputePool& pool,
         std::counting_semaphore<>& hanging) {
  const bool is_mpich = kind == "mpich";
  if (what == "sum") show(sky::broadcast(with<add_up>(kind)(is_mpich, numbers()), pool));
  if (what == "several") show(sky::broadcast(with<add_up>(kind, 2)(is_mpich, numbers()), pool));
  try {
    if (what == "throws") sky::broadcast(with<fail>(kind)(is_mpich), pool);
    if (what == "killed") sky::broadcast(with<die>(kind)(is_mpich), pool);
  } catch (const NoSuchRow& error) {
    std::printf("NoSuchRow %s %d\n", error.what(), error.row);
  } catch (const sky::RemoteError& error) {
    std::printf("%s %s\n", error.type().c_str(), error.message().c_str());
  }
  if (what == "cancelled") {
    std::vector<sky::Handle> handles =
        pool.untyped().broadcast(with<hang>(kind)(is_mpich).to_call({}));
    for (int i = 0; i < pool.instance_count(); ++i) hanging.acquire();
    for (sky::Handle& handle : handles) handle.cancel();
    for (sky::Handle& handle : handles) handle.wait(sky::kForever);
  }
  if (what == "throws" || what == "killed" || what == "cancelled") {
    show(sky::broadcast(with<add_up>(kind)(is_mpich, numbers()), pool));  // all is well again
  }
}

}  // namespace

int main(int argc, char** argv) {
  sky::init(argc, argv);
  if (argc != 3) return 2;
  std::counting_semaphore<> hanging(0);
  sky::ComputePool pool(
      {.nodes = 3, .display = sky::Display::quiet, .on_event = [&hanging](const sky::Event& event) {
         sky::match(event, [&hanging](const sky::LogLine& line) {
           std::printf("%s\n", line.line.c_str());
           if (line.line == "hanging") hanging.release();
         });
       }});
  run(argv[1], argv[2], pool, hanging);
  return 0;
}
