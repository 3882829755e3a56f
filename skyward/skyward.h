#pragma once

// Skyward for C++ programs, in one include. Start reading at function.h (what can be called) and
// compute_pool.h (where it runs); every program begins with sky::init.

#if __cplusplus < 202100L
#error "Skyward needs C++23: compile with -std=c++23"
#elif !defined(__cpp_exceptions) || !defined(__cpp_rtti)
#error "Skyward needs exceptions and type information: compile without -fno-exceptions, -fno-rtti"
#endif

#include <version>

#ifndef __cpp_lib_expected
#error "Skyward needs std::expected: use GCC 12 or clang 19, or newer ones"
#endif

#include "skyward/call/array.h"           // IWYU pragma: export
#include "skyward/call/function.h"        // IWYU pragma: export
#include "skyward/call/instance_info.h"   // IWYU pragma: export
#include "skyward/call/match.h"           // IWYU pragma: export
#include "skyward/call/pending.h"         // IWYU pragma: export
#include "skyward/call/remote_error.h"    // IWYU pragma: export
#include "skyward/call/shard.h"           // IWYU pragma: export
#include "skyward/call/sink.h"            // IWYU pragma: export
#include "skyward/call/thrown_type.h"     // IWYU pragma: export
#include "skyward/init.h"                 // IWYU pragma: export
#include "skyward/pool/accelerators.h"    // IWYU pragma: export
#include "skyward/pool/compute_pool.h"    // IWYU pragma: export
#include "skyward/pool/executor.h"        // IWYU pragma: export
#include "skyward/pool/future.h"          // IWYU pragma: export
#include "skyward/pool/multi_pool.h"      // IWYU pragma: export
#include "skyward/pool/send_operators.h"  // IWYU pragma: export
#include "skyward/pool/stream.h"          // IWYU pragma: export
#include "skyward/spec/offer.h"           // IWYU pragma: export
#include "skyward/worker/mpi.h"           // IWYU pragma: export
#include "skyward/worker/preemption.h"    // IWYU pragma: export
#include "skyward/worker/worker.h"        // IWYU pragma: export

namespace sky = skyward;
