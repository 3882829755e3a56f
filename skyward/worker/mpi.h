#pragma once

// Functions that run as the ranks of one MPI world over all workers of a pool:
//
//   double pi(long steps);  // calls MPI_Init, MPI_Reduce … and MPI_Finalize
//   inline constexpr auto remote_pi = sky::distributed::mpi<pi>({.ranks_per_node = 2});
//
//   for (const std::vector<double>& ranks : sky::broadcast(remote_pi(1000), pool)) …
//
// A rank is a process of this program, which MPI starts for the call, with the worker's variables,
// folder and output. Each worker answers with the results of its ranks. When a rank throws, the
// others are ended.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/call/error.h"
#include "skyward/call/function.h"
#include "skyward/call/map_blob.h"
#include "skyward/call/pending.h"
#include "skyward/worker/packed.h"

namespace skyward::distributed {

struct MpiOptions {
  int ranks_per_node = 1;  // processes on each worker
  // "openmpi" or "mpich"; empty: the one that the program is linked with; if it is linked with
  // none, Open MPI where it is installed, else MPICH. Read when the MPI function is made.
  std::string_view implementation{};
  Duration timeout = std::chrono::minutes(5);  // for the workers to meet, and for MPI to start
};

// What travels with the arguments of such a call.
struct MpiOrder {
  std::string function;  // as people call it
  std::string symbol;    // of the compute function that a rank calls
  int ranks_per_node = 1;
  std::string implementation;
  double timeout_s = 0;
  std::string secret;
  std::string arguments;  // packed

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(function, symbol, ranks_per_node, implementation, timeout_s, secret, arguments);
  }
};
MpiOrder mpi_order(const MpiOptions& options, const RegisteredFunction& function,
                   const wire::Payload& arguments);
// On a worker: runs the ranks of this worker, and returns their results. Throws RankError, or what
// the world itself fails with.
std::vector<wire::Payload> run_ranks(const MpiOrder& order);

template <auto F, typename Signature>
class MpiFunctionOf;

template <auto F, typename R, typename... P>
class MpiFunctionOf<F, R(P...)> {
 public:
  using Result = std::conditional_t<std::is_void_v<R>, void, std::vector<Value<R>>>;

  constexpr explicit MpiFunctionOf(const MpiOptions& options) : options_(options) {
    constexpr int kMostRanks = 1024;
    if (options.ranks_per_node < 1 || options.ranks_per_node > kMostRanks) {
      throw ConfigurationError("ranks_per_node of distributed::mpi: a number from 1 to 1024");
    }
    options_.implementation = "";  // the caller's text need not outlive this
    for (const std::string_view known : {"openmpi", "mpich"}) {
      if (options.implementation == known) options_.implementation = known;
    }
    if (options.implementation != options_.implementation) {
      throw ConfigurationError("implementation of distributed::mpi: \"openmpi\" or \"mpich\"");
    }
    if (options.timeout <= Duration{}) {
      throw ConfigurationError("timeout of distributed::mpi: a positive time");
    }
  }

  // The recorded call, for broadcast().
  Pending<Result> operator()(typename Parameter<P>::Stored... arguments) const {
    check_result_type<R>();
    ArchiveWriter writer(memory_store());
    (writer(arguments), ...);
    auto order = std::make_shared<const MpiOrder>(
        mpi_order(options_, ComputeFunction<F>::registered(), writer.finish()));
    return Pending<Result>(registered_, [order](ArchiveWriter& archive) { archive(*order); },
                           {.together = true});
  }

  // The plain call, here and now.
  R local(P... arguments) const { return F(std::forward<P>(arguments)...); }

 private:
  static void invoke(ArchiveReader& arguments, ArchiveWriter& result) {
    MpiOrder order;
    arguments(order);
    const std::vector<wire::Payload> answers = run_ranks(order);
    if constexpr (!std::is_void_v<R>) {
      Result values;
      for (const wire::Payload& answer : answers) {
        ArchiveReader reader(answer, &map_blob);
        std::remove_cv_t<R> value;
        reader(value);
        values.push_back(std::move(value));
      }
      result(values);
    }
  }

  static constexpr const char* pretty() { return __PRETTY_FUNCTION__; }

  // Of this program or library alone, as with ComputeFunctionOf.
  [[gnu::visibility("hidden")]] static inline const RegisteredFunction registered_{
      typeid(MpiFunctionOf).name(), pretty(), &invoke};

  MpiOptions options_;
};

// The MPI function made from F.
template <auto F>
constexpr auto mpi(const MpiOptions& options = {}) {
  using Signature = typename SignatureOf<std::remove_cv_t<decltype(F)>>::Type;
  return MpiFunctionOf<F, Signature>(options);
}

}  // namespace skyward::distributed
