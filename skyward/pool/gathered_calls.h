#pragma once

// How a gather() of many calls of one function is sent: quick calls travel in groups
// (wire/group.h), as in Python (docs/decisions/0026).

#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/call/call.h"
#include "skyward/pool/pool.h"

namespace skyward {

// So few calls are not worth it.
inline constexpr std::size_t kMinGatheredCalls = 1024;
// Calls with larger arguments go alone, and results from about that size on end their group.
inline constexpr std::size_t kMaxGatheredBytes = 2000;

// Calls of one function with small arguments and no options, packed.
struct PackedCalls {
  std::shared_ptr<const FunctionBody> function;
  Bytes arguments;                // of all calls, one behind the other
  std::vector<std::size_t> ends;  // where those of each call end
};

// How one of them ended: with a small result, or with another outcome, or it was not sent.
struct CallEnd {
  SharedBytes value;
  std::unique_ptr<Outcome> outcome;
  std::uint64_t task = 0;  // of the outcome
  std::exception_ptr unsent;
};

// Sends all, and waits for all. Throws NotProvisionedError when the pool is not open.
std::vector<CallEnd> run_gathered(Pool& pool, const PackedCalls& calls);

}  // namespace skyward
